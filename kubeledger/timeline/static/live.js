// The page with a server behind it: it follows the ledger, and asks SQL, why, state and what-if.

const FOLLOW_MS = 2000;

/** The server that sent the page; every request carries the token of its run. */
class LiveServer {
  constructor({ token, api, records }) {
    Object.assign(this, { token, api, count: records, etag: "" });
  }

  async fetch(path, { query = {}, body = null, headers = {} } = {}) {
    const asked = Object.entries(query).filter(([, value]) => value !== null && value !== "");
    const response = await fetch(`${this.api}${path}?${new URLSearchParams(asked)}`, {
      method: body ? "POST" : "GET", cache: "no-store", credentials: "omit",
      headers: { "X-Kubeledger-Token": this.token, ...(body ? { "Content-Type": "application/json" } : {}), ...headers },
      body: body && JSON.stringify(body),
    });
    if (response.ok || response.status === 304) return response;
    const { error, advice } = await response.json();
    throw new Error(advice ? `${error}\n${advice}` : error);
  }

  async get(path, query) { return (await this.fetch(path, { query })).json(); }

  async post(path, body) { return (await this.fetch(path, { body })).json(); }

  records(node, seq) { return this.get("records", { node, seq }); }

  /** The payload, or null while it is the one that the page has. */
  async drawing() {
    const response = await this.fetch("drawing", { headers: this.etag ? { "If-None-Match": `"${this.etag}"` } : {} });
    if (response.status === 304) return null;
    const payload = await response.json();
    this.etag = (response.headers.get("ETag") || "").replaceAll('"', "");
    return payload;
  }
}

// What-if, drawn over what was recorded ------------------------------------------------------

const BECOMES = {
  gone: { legend: "would not have happened", colour: "good" },
  follows: { legend: "nor what followed from it", colour: "good" },
  other: { legend: "would have been otherwise", colour: "admissible" },
  added: { legend: "would have been besides", colour: "bad" },
  undecided: { legend: "cannot be decided", colour: "unverifiable" },
};

const NODE_ROWS = [["eviction.NodeConditionsChanged", "pressure"], ["eviction.", "eviction manager"], ["images.", "image GC runs"]];

/** A what-if answer on one drawing: each mark at its row and time, where the drawing has such a row. */
class Overlay {
  constructor(answer, drawing) {
    Object.assign(this, { answer, drawing });
    this.paths = rowPaths(drawing);
    this.marks = answer.marks.map((mark) => this.place(mark));
  }

  place(mark) {
    const { drawing } = this;
    const at = Number(BigInt(mark.ts_ns) - drawing.baseNs) / 1e3;
    const i = mark.change === "added" ? undefined : drawing.bySeq.get(mark.seq);
    if (i !== undefined) return { ...mark, at, row: drawing.row[i] };
    return { ...mark, at, row: mark.change === "follows" ? null : this.rowOf(mark.subject || "", mark.kind, at) };
  }

  /** The row of a pod, container, image or the node; of several pods of one name the one that is there then. */
  rowOf(subject, kind, at) {
    const name = subject.replace(/^[a-z]+\//, "").replace(/^sha256:([0-9a-f]{12}).*/, "$1");
    const named = this.paths.filter(({ path }) => path === name || path.startsWith(`${name}/`)).map(({ row }) => row);
    if (!named.length) return subject === "node" ? this.nodeRow(kind) : null;
    return named.find((row) => this.drawing.stateAt(row, at) !== "") ?? named[0];
  }

  nodeRow(kind) {
    const [, label] = NODE_ROWS.find(([begin]) => kind.startsWith(begin)) || [];
    const { rows } = this.drawing;
    return [label, "other decisions", "kubelet"].map((each) => rows.findIndex((row) => row.label === each)).find((row) => row >= 0) ?? null;
  }

  paint(painter, top, bottom) {
    const last = new Map();
    for (const mark of this.marks) {
      const line = mark.row === null ? undefined : painter.layout.ofRow.get(mark.row);
      const x = painter.x(mark.at);
      if (!line || line.y + line.height < top || line.y > bottom || x < GUTTER - 9 || x > painter.surface.width + 9) continue;
      const key = `${mark.row} ${mark.change}`;
      if (x - (last.get(key) ?? -Infinity) < 3) continue;
      last.set(key, x);
      overlayGlyph(painter.surface, mark, x, line.y - top + HEIGHTS.lane / 2);
    }
  }

  /** Where in the whole span it would have gone another way. */
  overview(surface, scale) {
    for (const { at, change } of this.marks) if (change !== "follows") surface.rect(GUTTER + at * scale - 1, 30, 2.5, 6, BECOMES[change].colour);
  }

  legend(of) {
    const used = Object.keys(BECOMES).filter((change) => this.marks.some((mark) => mark.change === change));
    const doubted = this.marks.some((mark) => mark.untrusted_since);
    const sign = (mark) => smallCanvas(of, (surface) => overlayGlyph(surface, mark, 12, 8));
    return [
      ...used.map((change) => element("span", { class: "whatif" }, sign({ change }), `what if: ${BECOMES[change].legend}`)),
      ...(doubted ? [element("span", { class: "whatif" }, sign({ change: "gone", untrusted_since: 1 }), "dashed: only if all had gone on as recorded")] : []),
    ];
  }
}

/** Rows with their full names: a container's row below its pod's has the pod's name before its own. */
function rowPaths(drawing) {
  const paths = [];
  let pod = "";
  drawing.rows.forEach(({ label, depth, shape }, row) => {
    if (!depth && shape === "lane") pod = label;
    if (shape === "lane") paths.push({ row, path: depth ? `${pod}/${label}` : label });
  });
  return paths;
}

function overlayGlyph(surface, { change, untrusted_since: doubted }, x, y) {
  const { colour } = BECOMES[change];
  const dash = doubted ? [3, 2] : [];
  if (change === "gone") {
    surface.circle(x, y, 8, "paper", 4);
    surface.circle(x, y, 8, colour, 2, dash);
    surface.line([[x - 7, y + 7], [x + 7, y - 7]], "paper", 4);
    surface.line([[x - 7, y + 7], [x + 7, y - 7]], colour, 2, dash);
  } else if (change === "follows") {
    surface.line([[x - 6, y + 6], [x + 6, y - 6]], "paper", 4);
    surface.line([[x - 6, y + 6], [x + 6, y - 6]], colour, 2);
  } else if (change === "undecided") {
    surface.circle(x, y, 6, "paper", 4);
    surface.circle(x, y, 6, colour, 1.5, [2, 2]);
    surface.text("?", x, y, colour, { align: "center", bold: true });
  } else {
    const points = change === "other" ? [[x, y - 8], [x + 8, y + 6], [x - 8, y + 6]] : [[x, y - 8], [x + 8, y], [x, y + 8], [x - 8, y]];
    surface.line([...points, points[0]], "paper", 4);
    surface.line([...points, points[0]], colour, 1.8, dash);
  }
}

// The dock: a row of tabs below the chart, each with a question -------------------------------

/** Questions and their answers. One is open at a time; the dock keeps to one line until it is asked. */
class Dock {
  constructor(page, server) {
    Object.assign(this, { page, server, record: null });
    this.tabs = Object.entries({ sql: ["SQL", SqlTab], why: ["Why", WhyTab], state: ["State at the cursor", StateTab], whatif: ["What if", WhatIfTab] })
      .map(([id, [title, Tab]]) => ({ id, tab: new Tab(this), button: element("button", {
        type: "button", role: "tab", id: `tab-${id}`, "aria-controls": `panel-${id}`, "aria-selected": "false", on: { click: () => this.toggle(id) },
      }, title) }));
    this.status = element("span", { id: "following", role: "status" });
    this.body = element("div", { class: "dock-body" }, ...this.tabs.map(({ id, tab }) => {
      tab.root.id = `panel-${id}`;
      tab.root.setAttribute("role", "tabpanel");
      tab.root.setAttribute("aria-labelledby", `tab-${id}`);
      tab.root.hidden = true;
      return tab.root;
    }));
    this.body.hidden = true;
    this.close = element("button", { type: "button", "aria-label": "Close the panel", on: { click: () => this.toggle(this.opened) } }, "×");
    this.close.hidden = true;
    this.root = element("section", { id: "dock", "aria-label": "Questions" },
      element("div", { class: "dock-bar" }, element("span", { role: "tablist" }, ...this.tabs.map(({ button }) => button)), this.status, this.close), this.body);
    document.querySelector("main").after(this.root);
    this.opened = null;
    this.say("following the ledger");
    page.onDraw = () => this.moved();
    page.pane.onShow = (record) => this.offer(record);
  }

  tab(id) { return this.tabs.find((each) => each.id === id).tab; }

  toggle(id) {
    this.opened = this.opened === id ? null : id;
    document.body.classList.toggle("asking", this.opened !== null);
    for (const { id: each, tab, button } of this.tabs) {
      tab.root.hidden = each !== this.opened;
      button.setAttribute("aria-selected", String(each === this.opened));
    }
    this.body.hidden = this.close.hidden = this.opened === null;
    if (this.opened) this.tab(this.opened).show?.();
  }

  /** Ask the query that the address holds, which somebody sent. */
  followHash() {
    const query = new URLSearchParams(location.hash.slice(1)).get("sql");
    if (!query || query === this.tab("sql").text.value) return;
    this.open("sql");
    this.tab("sql").follow(query);
  }

  open(id) { if (this.opened !== id) this.toggle(id); }

  say(text, bad = false) {
    this.status.textContent = visible(text);
    this.status.classList.toggle("error", bad);
  }

  get node() { return this.page.drawing.node; }

  /** The cursor as nanoseconds since the epoch, exact; "" where there is none. */
  get cursorNs() {
    const { cursor, drawing } = this.page.view;
    return cursor === null ? "" : String(drawing.baseNs + BigInt(Math.ceil(cursor)) * 1000n + 999n);
  }

  get cursorText() {
    const { cursor, clock } = this.page.view;
    return cursor === null ? "the end" : clock.full(cursor);
  }

  moved() {
    const now = `${this.node} ${this.cursorNs}`;
    if (now === this.seen) return;
    this.seen = now;
    for (const { tab } of this.tabs) tab.moved?.();
  }

  /** The record's own why, one click away. */
  offer(record) {
    this.record = record;
    this.tab("why").suggest(targetOf(record));
    this.page.pane.root.querySelector("h2").append(" ", element("button", {
      type: "button", class: "ask", on: { click: () => { this.open("why"); this.tab("why").ask(); } },
    }, "Why?"));
  }

  goTo(seq, node) {
    const index = this.page.drawings.findIndex((drawing) => drawing.node === node);
    if (index >= 0 && index !== this.page.index) this.page.showNode(index);
    this.page.goTo(seq);
  }

  link(seq, text = `#${seq}`, node = this.node) {
    return element("a", { href: `#seq=${seq}`, on: { click: (event) => { event.preventDefault(); this.goTo(Number(seq), node); } } }, text);
  }
}

function targetOf({ kind, about, body }) {
  if (kind.startsWith("images.")) return about ? `image/${about}` : "node";
  if (kind.startsWith("cgroups.") && about.startsWith("kubepods")) return `cgroup/${about}`;
  const parts = about.split("/");
  if (parts.length === 2 || parts.length === 3) return `${parts.length === 2 ? "pod" : "container"}/${about}`;
  return "node";
}

/** Shows what a promise gives, or why it gave nothing; an answer that was overtaken is dropped. */
async function answerInto(place, promise, show, meanwhile = "") {
  const turn = (place.turn = (place.turn || 0) + 1);
  if (meanwhile) place.replaceChildren(element("p", { class: "hint" }, meanwhile));
  else place.classList.add("waiting");
  try {
    const answer = await promise;
    if (turn === place.turn) place.replaceChildren(...show(answer));
  } catch (error) {
    if (turn === place.turn) place.replaceChildren(element("p", { class: "error", role: "alert" }, ...lines(error.message)));
  } finally {
    if (turn === place.turn) place.classList.remove("waiting");
  }
}

function lines(text) {
  return text.split("\n").flatMap((line, i) => (i ? [element("br"), line] : [line]));
}

function table(columns, rows, { right = [] } = {}) {
  return element("table", {},
    element("thead", {}, element("tr", {}, ...columns.map((column, c) => element("th", { class: right[c] ? "right" : null }, column)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell, c) => (cell === null
      ? element("td", { class: "null" }, "null") : element("td", { class: right[c] ? "right" : null }, cell)))))));
}

const NUMBERS = /^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL(\(.*\))?)$/;

class SqlTab {
  constructor(dock) {
    this.dock = dock;
    this.choice = element("select", { "aria-label": "Shipped query", on: { change: () => this.choose() } }, element("option", { value: "" }, "shipped queries …"));
    this.params = element("div", { class: "params" });
    this.text = element("textarea", {
      "aria-label": "SQL", spellcheck: "false", rows: "6", placeholder: "SELECT pod, reason FROM admissions WHERE NOT admitted",
      on: { keydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.run(); } },
    });
    this.result = element("div", { class: "result" }, element("p", { class: "hint" }, "Choose a query, or write one: SHOW TABLES lists the views."));
    this.root = element("div", { class: "split" },
      element("div", { class: "question" }, this.choice, this.params, this.text,
        element("button", { type: "button", id: "run", class: "primary", on: { click: () => this.run() } }, "Run"),
        element("span", { class: "hint" }, " Ctrl+Enter; it only reads")),
      this.result);
    this.queries = new Map();
  }

  async show() {
    this.text.focus();
    if (this.queries.size) return;
    for (const query of await this.dock.server.get("queries")) {
      this.queries.set(query.name, query);
      this.choice.append(element("option", { value: query.name, title: query.doc }, `${query.name}: ${query.title}`));
    }
  }

  choose() {
    const query = this.queries.get(this.choice.value);
    this.params.replaceChildren(...(query ? query.parameters : []).map((each) => element("label", { title: each.doc }, `${each.name} `,
      element("input", { name: each.name, placeholder: each.default ?? (each.required ? each.doc : "none") }))));
    if (!query) return;
    this.text.value = query.sql;
    for (const input of this.params.querySelectorAll("input")) this.fill(input, query.parameters.find((each) => each.name === input.name));
    if (![...this.params.querySelectorAll("input")].some((input) => input.placeholder && !input.value && query.parameters.find((each) => each.name === input.name).required)) this.run();
  }

  /** A time that is asked for is most likely that of the cursor. */
  fill(input, { type, required }) {
    const { cursor, clock } = this.dock.page.view;
    if (type === "TIME" && required && cursor !== null) input.value = `${clock.parts(cursor).iso.slice(0, 19)}Z`;
  }

  /** The query that the address asks for. */
  follow(query) {
    this.text.value = query;
    this.run();
  }

  run() {
    address({ sql: this.text.value });
    const params = Object.fromEntries([...this.params.querySelectorAll("input")].map((input) => [input.name, input.value.trim()]));
    answerInto(this.result, this.dock.server.post("sql", { query: this.text.value, name: this.choice.value, params }), (answer) => this.shown(answer));
  }

  shown({ columns, types, rows, truncated, ms }) {
    const right = types.map((type) => NUMBERS.test(type));
    const seqs = columns.map((column) => column === "seq" || column.endsWith("_seq"));
    const node = columns.indexOf("node");
    const cells = rows.map((row) => row.map((cell, c) => (cell !== null && seqs[c] ? this.dock.link(cell, cell, node < 0 ? this.dock.node : row[node]) : cell)));
    const count = truncated ? `the first ${rows.length.toLocaleString("en")} rows; kubeledger sql has them all` : `${rows.length.toLocaleString("en")} ${rows.length === 1 ? "row" : "rows"}`;
    const save = element("button", { type: "button", class: "ask", on: { click: () => download("rows.csv", csv([columns, ...rows])) } }, "CSV");
    return [element("p", { class: "hint" }, `${count} · ${ms} ms `, save), element("div", { class: "rows", tabindex: "0" }, table(columns, cells, { right }))];
  }
}

/** Rows as RFC 4180 has them; what a spreadsheet would take for a formula is text. */
function csv(rows) {
  const cell = (value) => {
    const text = value === null ? "" : /^[=+@\t\r]|^-(?!\d)/.test(value) ? `'${value}` : value;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  element("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

class WhyTab {
  constructor(dock) {
    this.dock = dock;
    this.target = element("input", {
      "aria-label": "What to explain", placeholder: "a pod, POD/CONTAINER, NAMESPACE/POD, a UID, an image, a device, a cgroup, node",
      on: { keydown: (event) => { if (event.key === "Enter") this.ask(); } },
    });
    this.at = element("span", { class: "hint" });
    this.result = element("div", { class: "result prose" }, element("p", { class: "hint" }, "Select a mark, or name a pod, container, image, device, cgroup or the node."));
    this.root = element("div", {}, element("div", { class: "line" }, this.target,
      element("button", { type: "button", class: "primary", on: { click: () => this.ask() } }, "Why?"), this.at), this.result);
  }

  show() { this.target.focus(); }

  moved() { this.at.textContent = visible(`as of ${this.dock.cursorText}`); }

  suggest(target) { this.target.value = target; }

  ask() {
    const query = { node: this.dock.node, target: this.target.value.trim(), at: this.dock.cursorNs };
    answerInto(this.result, this.dock.server.get("why", query), (answer) => this.shown(answer), "Deciding again what was decided about it …");
  }

  shown({ headline, steps, sentence, evidence, finding, ranking, history }) {
    const { clock } = this.dock.page.view;
    const time = (ts) => clock.full((Number(ts) - Number(this.dock.page.drawing.baseNs)) / 1e3);
    return [
      element("p", { class: "sentence" }, headline || sentence),
      ...(steps && steps.length ? [table(["when", "what", "record"], steps.map((step) => [
        step.count > 1 ? `${time(step.ts_ns)} – ${time(step.last_ts_ns).slice(11)}` : time(step.ts_ns), `${step.text}${step.count > 1 ? ` (${step.count}×)` : ""}`, this.dock.link(step.seq),
      ]))] : []),
      ...(headline && headline !== sentence ? [element("details", {}, element("summary", {}, "All reasons"), element("p", {}, sentence))] : []),
      ...(finding ? [element("p", {}, element("strong", { class: finding.verdict }, finding.verdict), " ", this.dock.link(finding.seq, `#${finding.seq} ${finding.kind}`),
        ...(finding.rule ? [element("span", { class: "hint" }, `  ${finding.rule}`)] : []))] : []),
      ...(ranking && ranking.length ? [element("details", {}, element("summary", {}, `Ranking of ${ranking.length} pods, the first to go first`), element("ol", {}, ...ranking.map((line) => element("li", {}, line))))] : []),
      element("h3", {}, "Evidence"),
      element("ol", { class: "evidence" }, ...evidence.map((piece) => element("li", {}, element("span", { class: "hint" }, `${time(piece.ts_ns)} `),
        this.dock.link(piece.seq), ` ${[piece.subject, piece.summary].filter(Boolean).join(": ")}${piece.inferred ? " (inferred)" : ""}`,
        ...(piece.file ? [element("p", { class: "place" }, piece.line ? `${piece.file}:${piece.line}` : piece.file), ...(piece.text ? [element("pre", { tabindex: "0" }, piece.text)] : [])] : [])))),
      ...(history && history.length > 1 ? [element("details", {}, element("summary", {}, `All ${history.length} decisions about it`),
        table(["when", "record", "what", "verdict"], history.map((step) => [time(step.ts_ns), this.dock.link(step.seq), `${step.kind}: ${step.summary}`, step.verdict || ""])))] : []),
    ];
  }
}

class StateTab {
  constructor(dock) {
    this.dock = dock;
    this.result = element("div", { class: "result" });
    this.root = element("div", {}, this.result);
  }

  show() { this.ask(); }

  moved() {
    clearTimeout(this.pending);
    if (this.dock.opened === "state") this.pending = setTimeout(() => this.ask(), 250);
  }

  ask() {
    answerInto(this.result, this.dock.server.get("state", { node: this.dock.node, at: this.dock.cursorNs }), (state) => this.shown(state));
  }

  shown(state) {
    const pods = Object.entries(state.pods).map(([key, pod]) => [key, pod.name ? `${pod.namespace}/${pod.name}` : key, pod]).sort(([, a], [, b]) => (a < b ? -1 : 1));
    const names = new Map(pods.map(([key, name]) => [key, name]));
    const devices = Object.entries(state.devices.holders).flatMap(([key, containers]) => Object.entries(containers).flatMap(([container, resources]) =>
      Object.entries(resources).map(([resource, held]) => [held.device_ids.join(", "), resource, `${names.get(key) || key}/${container}`])));
    const probes = Object.entries(state.probes).flatMap(([key, containers]) => Object.entries(containers).flatMap(([container, kinds]) =>
      Object.entries(kinds).map(([kind, probe]) => [`${names.get(key) || key}/${container}`, kind, probe.cached_result || "", probe.last_result ? `${probe.last_result} × ${probe.run}` : ""])));
    const rest = Object.entries(state).filter(([part]) => !["node", "seq", "ts_ns", "pods", "probes"].includes(part));
    return [
      element("p", { class: "hint" }, `State at ${this.dock.cursorText}, after record `, this.dock.link(state.seq)),
      element("div", { class: "states" },
        part(`Pods (${pods.length})`, table(["pod", "phase", "QoS", "containers"], pods.map(([, name, pod]) => [name, podPhase(pod), pod.qos_class || "", containers(pod)]))),
        ...(devices.length ? [part(`Devices held (${devices.length})`, table(["device", "resource", "by"], devices))] : []),
        ...(probes.length ? [part(`Probes (${probes.length})`, table(["container", "probe", "result", "last"], probes))] : []),
        part("Counts", table(["what", "times"], Object.entries(state.counts).filter(([, count]) => count).map(([what, count]) => [what.replaceAll("_", " "), String(count)]), { right: [false, true] }))),
      ...rest.map(([name, value]) => element("details", {}, element("summary", {}, name), element("pre", { tabindex: "0" }, ...lines(JSON.stringify(value, null, 1))))),
    ];
  }
}

function part(title, content) { return element("div", {}, element("h3", {}, title), content); }

function podPhase(pod) {
  const words = [pod.admitted === false ? `refused: ${pod.reason}` : pod.phase || (pod.admitted ? "admitted" : "")];
  if (pod.deleting) words.push("deleting");
  if (pod.terminated) words.push("ended");
  return words.filter(Boolean).join(", ");
}

function containers(pod) {
  return Object.entries(pod.containers).map(([name, c]) => {
    const ended = c.exit_code === null ? "ended" : `exit ${c.exit_code}`;
    const now = c.running ? "running" : c.container_id === null && c.finished_ts_ns === null ? "waiting" : c.back_off_s ? `back-off ${c.back_off_s} s` : ended;
    return `${name} ${now}${c.restart_count ? ` (${c.restart_count} restarts)` : ""}`;
  }).join(", ");
}

const EXAMPLES = ["evictionHard.memory.available=5%", "imageGCHighThresholdPercent=95", "topologyManagerPolicy=none", "--kubelet-version 1.34.1"];

class WhatIfTab {
  constructor(dock) {
    this.dock = dock;
    this.set = element("input", {
      "aria-label": "Settings", placeholder: "KEY=VALUE, e.g. evictionHard.memory.available=5%",
      on: { keydown: (event) => { if (event.key === "Enter") this.ask(); } },
    });
    this.file = element("input", { type: "file", id: "config", accept: ".yaml,.yml,.json", "aria-label": "KubeletConfiguration in place of the node's", on: { change: () => this.choose() } });
    this.clear = element("button", { type: "button", on: { click: () => this.forget() } }, "Clear");
    this.clear.hidden = true;
    this.result = element("div", { class: "result prose" }, element("p", { class: "hint" },
      "What would the kubelet have decided under another setting, or another version? What would not have happened is crossed out in the chart. Try: ",
      ...EXAMPLES.flatMap((text) => [element("button", { type: "button", class: "ask", on: { click: () => { this.set.value = text; this.ask(); } } }, text), " "])));
    this.root = element("div", {}, element("div", { class: "line" }, this.set, element("label", { class: "hint" }, "and the configuration ", this.file),
      element("button", { type: "button", class: "primary", on: { click: () => this.ask() } }, "What if?"), this.clear), this.result);
  }

  show() { this.set.focus(); }

  /** Another configuration file in place of the node's; none where the choice was cancelled. */
  async choose() {
    const [file] = this.file.files;
    this.config = file ? { name: file.name, text: await file.text() } : null;
    if (file) this.ask();
  }

  ask() {
    const { node } = this.dock;
    answerInto(this.result, this.dock.server.post("whatif", { node, set: this.set.value, ...(this.config && { config: this.config }) }), (answer) => {
      this.answer = { ...answer, node };
      this.draw();
      this.reveal();
      return this.shown(answer);
    }, "Deciding everything again …");
  }

  /** Draw the answer over its node, also over a newer drawing of it. */
  draw() {
    const { page } = this.dock;
    for (const view of page.views) view.overlay = this.answer && view.drawing.node === this.answer.node ? new Overlay(this.answer, view.drawing) : null;
    this.clear.hidden = !this.answer;
    page.fillLegend();
    page.chart.redraw();
  }

  /** Scroll to the first mark, unless one is in sight. */
  reveal() {
    const { chart, view } = this.dock.page;
    const drawn = (view.overlay?.marks || []).filter(({ row }) => row !== null && view.layout.ofRow.has(row));
    const top = chart.scroller.scrollTop;
    const line = ({ row }) => view.layout.ofRow.get(row);
    if (drawn.some((mark) => line(mark).y >= top && line(mark).y < top + chart.scroller.clientHeight) || !drawn.length) return;
    chart.scroller.scrollTop = Math.min(...drawn.map((mark) => line(mark).y)) - 2 * HEIGHTS.lane;
  }

  forget() {
    this.answer = this.config = null;
    this.file.value = "";
    this.draw();
    this.result.replaceChildren();
  }

  shown({ variant, summary, marks }) {
    const { clock } = this.dock.page.view;
    const { baseNs } = this.dock.page.drawing;
    const decided = marks.filter((mark) => mark.change !== "follows");
    return [
      element("h3", {}, variant),
      element("ul", { class: "summary" }, ...summary.map((sentence) => element("li", {}, sentence))),
      ...(decided.length ? [element("div", { class: "rows", tabindex: "0" }, table(["when", "record", "about", "becomes", "why", "instead"], decided.slice(0, 500).map((mark) => [
        clock.full(Number(BigInt(mark.ts_ns) - baseNs) / 1e3), this.dock.link(mark.seq, `#${mark.seq} ${mark.kind}`), mark.subject,
        `${BECOMES[mark.change].legend}${mark.untrusted_since ? " (if all had gone on as recorded)" : ""}`, mark.why, mark.change === "undecided" ? "not known" : mark.instead || "nothing",
      ])))] : []),
    ];
  }
}

// Following ----------------------------------------------------------------------------------

async function startLive(start) {
  const pane = document.getElementById("pane");
  const server = new LiveServer(JSON.parse(document.getElementById("live").textContent));
  const began = Date.now();
  const wait = () => pane.replaceChildren(element("p", { class: "hint" },
    `Deciding again what ${server.count.toLocaleString("en")} records hold: ${Math.round((Date.now() - began) / 1000)} s …`));
  wait();
  const waiting = setInterval(wait, 1000);
  let payload;
  try {
    payload = await server.drawing();
  } catch (error) {
    pane.replaceChildren(element("p", { class: "error", role: "alert" }, ...lines(error.message)));
    return;
  } finally {
    clearInterval(waiting);
  }
  pane.replaceChildren(element("p", { class: "hint" }, "Click a mark, or press n for the next thing that went wrong. SQL, why, the state at the cursor and what-if are below."));
  const page = start(payload, server);
  const dock = new Dock(page, server);
  page.fillLegend();
  dock.followHash();
  window.addEventListener("hashchange", () => dock.followHash());
  window.kubeledger.overlay = () => (page.view.overlay?.marks || []).map(({ seq, change, kind, row, untrusted_since }) => ({
    seq, change, kind, row: row === null ? null : page.drawing.rows[row].label, untrusted: Boolean(untrusted_since),
  }));
  for (;;) {
    await new Promise((wake) => { setTimeout(wake, FOLLOW_MS); });
    if (!document.hidden) await follow(page, dock, server);
  }
}

async function follow(page, dock, server) {
  try {
    const payload = await server.drawing();
    if (payload) {
      page.replace(payload);
      dock.tab("whatif").draw();
      dock.say(`the ledger has grown at ${new Date().toLocaleTimeString()}`);
    } else if (dock.status.classList.contains("error")) dock.say("following the ledger");
  } catch (error) {
    dock.say(error instanceof TypeError ? "no answer: is kubeledger ui still running?" : error.message, true);
  }
}
