// The page: header, groups, filters, keys, the chosen node, print, and what tests may ask.

class Report {
  constructor(payload) {
    this.fleet = new Fleet(payload);
    this.state = { text: "", pool: null, version: null, by: "worst", down: true };
    this.table = new Table(this.fleet, (by) => this.sort(by));
    this.table.own = this.spansDiffer();
    this.table.onSelect = (row) => this.open(row);
    this.pane = document.getElementById("pane");
    this.clock = new Clock(0n);
    this.fillHeader();
    this.fillGroups();
    this.fillFilters();
    this.fillLegend();
    this.explain();
    this.listen();
    this.apply();
  }

  /** Whether one axis for all would leave most nodes too little of it to see anything. */
  spansDiffer() {
    const { rows, from, to } = this.fleet;
    const short = rows.filter((row) => row.first !== null && row.last - row.first < (to - from) / 8);
    return short.length * 2 > rows.length;
  }

  at(seconds) { return `${this.clock.date(seconds * 1e6)} ${this.clock.time(seconds * 1e6, 1e6)}`; }

  fillHeader() {
    const { rows, pools, versions, columns, from, to } = this.fleet;
    const title = `Fleet of ${rows.length.toLocaleString("en")} ${rows.length === 1 ? "node" : "nodes"}`;
    document.title = `${title} · kubeledger`;
    document.getElementById("title").textContent = title;
    const span = Number.isFinite(from) ? `${this.at(from)} – ${this.at(to)} UTC` : "no records";
    const listed = versions.length > 4 ? `${versions.length} versions, ${versions[0]} to ${versions[versions.length - 1]}` : versions.join(", ") || "?";
    const known = pools.filter((pool) => pool !== NO_POOL).length;
    document.getElementById("meta").textContent = visible(`kubelet ${listed} · ${known ? `${known} ${known === 1 ? "pool" : "pools"}` : NO_POOL} · ${span}`);
    const sum = (value) => rows.reduce((total, row) => total + value(row), 0);
    const place = (id) => columns.findIndex((column) => column.id === id);
    const counts = { match: sum((row) => row.match), admissible: sum((row) => row.admissible), impossible: sum((row) => row.counts[place("impossible")]), unverifiable: sum((row) => row.counts[place("unverifiable")]), inferred: sum((row) => row.inferred) };
    document.getElementById("verdicts").replaceChildren(`${sum((row) => row.decisions).toLocaleString("en")} decisions: `, ...Object.entries(counts).flatMap(([verdict, count], i) => [
      i ? " · " : "", element("b", { class: count ? verdict : "" }, count.toLocaleString("en")), ` ${verdict}`,
    ]));
  }

  fillGroups() {
    const { fleet } = this;
    const pools = fleet.grouped(fleet.pools, (row, at) => row.poolAt === at);
    const versions = fleet.grouped(fleet.versions, (row, at) => row.version === fleet.versions[at]);
    document.getElementById("groups").replaceChildren(
      this.group("Pools", pools, (group) => this.filter({ pool: group.at })), this.group("Versions of the last kubelet", versions, (group) => this.filter({ version: group.name })), ...this.failures(),
    );
  }

  group(title, groups, act) {
    const number = (count) => element("td", { class: count ? "number" : "number zero" }, count.toLocaleString("en"));
    const table = element(
      "table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, ""), ...["nodes", "standing out", "decisions"].map((head) => element("th", { scope: "col", class: "number" }, head)),
        ...this.fleet.seen.map((place) => element("th", { scope: "col", class: "number" }, plainTitle(this.fleet.columns[place]))))),
      element("tbody", {}, ...groups.map((group) => element("tr", {}, element("td", {}, element("button", { type: "button", title: "Only these", on: { click: () => act(group) } }, group.name)),
        number(group.nodes), number(group.out), number(group.decisions), ...this.fleet.seen.map((place) => number(group.counts[place]))))),
    );
    return element("details", groups.length <= 6 ? { open: "" } : {}, element("summary", {}, `${title} (${groups.length})`), table);
  }

  failures() {
    const { failures } = this.fleet;
    if (!failures.length) return [];
    const count = failures.reduce((sum, failure) => sum + failure.count, 0);
    const rows = failures.map((failure) => element("tr", {}, element("td", { class: "number" }, failure.count.toLocaleString("en")), element("td", {}, failure.kind), element("td", {}, failure.reason), element("td", {}, failure.advice), element("td", {}, failure.sources.join(", "))));
    const heads = ["sources", "kind", "reason", "advice", "the first of them"].map((head) => element("th", { scope: "col" }, head));
    return [element("details", { id: "failures" }, element("summary", {}, element("span", { class: "sign", "aria-hidden": "true" }, "✕"), `${count.toLocaleString("en")} ${count === 1 ? "source is" : "sources are"} not in the lake`),
      element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows)))];
  }

  fillFilters() {
    const fill = (id, any, values) => document.getElementById(id).replaceChildren(element("option", { value: "" }, any), ...values.map((value, at) => element("option", { value: at }, value)));
    fill("pool", "all pools", this.fleet.pools);
    fill("version", "all versions", this.fleet.versions);
  }

  fillLegend() {
    const sign = (problems, impossible) => hoursDrawing({ hours: problems || impossible ? [0, 0, problems, impossible] : [], first: 0, last: 3600, problems }, 0, 3600, 24, 14);
    document.getElementById("legend").replaceChildren(
      element("span", {}, sign(1, 0), `problems in an hour (height: square root, at most ${this.fleet.peak.toLocaleString("en")})`), element("span", {}, sign(0, 1), "impossible decisions"), element("span", {}, sign(0, 0), "records"),
      element("span", {}, element("b", { class: "out" }, "▲"), "stands out against its pool"),
      element("span", {}, `time: ${this.table.own ? "each node's own span" : "the same for all nodes"}`),
    );
  }

  // The pane -------------------------------------------------------------------------------

  /** How the page orders and compares; while no node is chosen. */
  explain() {
    const { columns, rule } = this.fleet;
    const problems = columns.filter((column) => column.problem).map(plainTitle).join(", ");
    const by = (per) => columns.filter((column) => column.per === per).map(plainTitle).join(", ");
    this.pane.replaceChildren(
      element("h2", {}, "How to read this"),
      element("p", {}, "A click on a head sorts, on a row shows more; a name with a link opens the node's own page. Keys: ↑ ↓ choose, enter opens, / searches, esc goes back."),
      element("h3", {}, "Worst first"),
      element("p", {}, "Most impossible decisions first. Then most problems per hour of records, of which at least one hour is counted. Then most contradictions; then by name."),
      element("p", {}, `Problems: ${problems}.`),
      element("h3", {}, "What stands out (▲)"),
      element("p", {}, `Each count is compared with the other nodes of the pool by its rate: per line (${by("line")}), per decision (${by("decision")}), else per hour of records. Expected is the pool's median rate times the node's own hours, lines or decisions.`),
      element("p", {}, `A count stands out if it is at least ${rule.score} spreads and ${rule.excess} above what is expected. The spread is the pool's MAD (median absolute deviation × 1.4826), but at least the square root of what is expected, and at least 1.`),
      element("p", {}, `Pools of fewer than ${rule.pool} nodes are not compared. Nodes of which no pool is known are compared with one another, though they may have nothing in common.`),
      element("h3", {}, "Columns"),
      element("dl", {}, ...columns.flatMap((column) => [element("dt", {}, plainTitle(column)), element("dd", {}, column.doc)])),
      ...(this.fleet.seen.length < columns.length ? [element("p", {}, `No node has any, so there is no column: ${columns.filter((_, place) => !this.fleet.seen.includes(place)).map(plainTitle).join(", ")}.`)] : []),
    );
  }

  open(row) {
    const { columns, rule } = this.fleet;
    const facts = [
      ["pool", row.pool], ["kubelet", row.versions.join(", ") || "?"], ["records", row.first === null ? "none" : `${this.at(row.first)} – ${this.at(row.last)} UTC (${duration(row.span * 3600e6)})`],
      ["place", `${(row.i + 1).toLocaleString("en")}. of ${this.fleet.rows.length.toLocaleString("en")}, worst first`],
      ["decisions", `${row.decisions.toLocaleString("en")}: ${row.match.toLocaleString("en")} match, ${row.admissible.toLocaleString("en")} admissible`],
    ];
    const compared_ = row.peers >= rule.pool ? `Nothing stands out against the ${row.peers.toLocaleString("en")} nodes of its pool.` : `Its pool has ${row.peers} ${row.peers === 1 ? "node" : "nodes"}: too few to compare.`;
    const out = row.out.map(([place, expected, score]) => element("li", {}, element("b", { class: "out" }, `▲ ${row.counts[place].toLocaleString("en")} ${plainTitle(columns[place])}`), `: ${expectation({ expected, score })}`));
    this.pane.replaceChildren(
      element("h2", {}, row.node), ...(row.link ? [element("p", {}, element("a", { href: row.link }, "Open its timeline page"))] : []),
      hoursDrawing(row, row.first ?? 0, row.last ?? 0, 340, 60), element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
      element("h3", {}, "What stands out"), out.length ? element("ul", {}, ...out) : element("p", {}, compared_),
      element("h3", {}, "Counts"), element("dl", {}, ...columns.flatMap((column, place) => [element("dt", { title: visible(column.doc) }, plainTitle(column)), element("dd", {}, row.counts[place].toLocaleString("en"))])),
      element("p", {}, element("button", { type: "button", on: { click: () => this.explain() } }, "How to read this")),
    );
    this.pane.scrollTop = 0;
  }

  // Filters and keys -----------------------------------------------------------------------

  filter(change) {
    Object.assign(this.state, change);
    document.getElementById("pool").value = this.state.pool === null ? "" : String(this.state.pool);
    document.getElementById("version").value = this.state.version === null ? "" : String(this.fleet.versions.indexOf(this.state.version));
    this.apply();
  }

  sort(by) {
    const again = this.state.by === by;
    this.filter({ by, down: again ? !this.state.down : !ASCENDING.has(by) });
    document.querySelector(`#heads [data-by="${by}"]`).focus();
  }

  apply() {
    const rows = this.fleet.select(this.state);
    this.table.fillHeads(this.state.by, this.state.down);
    this.table.show(rows);
    const all = this.fleet.rows.length;
    const out = rows.filter((row) => row.out.length).length;
    document.getElementById("shown").textContent = `${rows.length === all ? "" : `${rows.length.toLocaleString("en")} of `}${all.toLocaleString("en")} nodes; ${out.toLocaleString("en")} of them stand out against their pool`;
  }

  listen() {
    const chosen = (id, value) => document.getElementById(id).addEventListener("change", (event) => this.filter({ [id]: event.target.value === "" ? null : value(Number(event.target.value)) }));
    chosen("pool", (at) => at);
    chosen("version", (at) => this.fleet.versions[at]);
    const search = document.getElementById("search");
    search.addEventListener("input", () => this.filter({ text: search.value }));
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") {
        search.value = "";
        this.filter({ text: "", pool: null, version: null });
        this.explain();
        this.table.grid.focus({ preventScroll: true });
      } else if (event.target.matches?.("input, select, button, a, summary") ? event.target === search && event.key === "ArrowDown" && this.table.key(event) : this.table.key(event)) {
        this.table.grid.focus({ preventScroll: true });
        event.preventDefault();
      } else if (event.key === "/" && event.target !== search) {
        search.focus();
        event.preventDefault();
      }
    });
    window.addEventListener("beforeprint", () => {
      if (this.table.rows.length > PRINTED) document.getElementById("shown").append(` (the first ${PRINTED} are printed)`);
      this.table.print();
    });
    window.addEventListener("afterprint", () => this.apply());
  }

  /** Rows as they stand, for tests. */
  rows() {
    return this.table.rows.map((row) => ({
      node: row.node, pool: row.pool, versions: row.versions, link: row.link, problems: row.problems,
      counts: Object.fromEntries(this.fleet.columns.map((column, place) => [column.id, row.counts[place]])), out: row.out.map(([place]) => this.fleet.columns[place].id),
    }));
  }
}

const report = new Report(JSON.parse(document.getElementById("fleet").textContent));
window.kubeledger = {
  ready: true,
  rows: () => report.rows(),
  drawn: () => [...report.table.drawn.keys()].sort((a, b) => a - b).map((at) => report.table.rows[at].node),
  timing: () => ({ ready_ms: readyMs, frames_ms: report.table.frames }),
};
const readyMs = performance.now();
