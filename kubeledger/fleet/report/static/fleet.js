// The fleet: columns of the payload as rows, which of them are wanted, in which order.

const NO_POOL = "no pool known";

class Fleet {
  constructor(payload) {
    const { nodes, counts } = payload;
    Object.assign(this, payload);
    this.pools = payload.pools.map((pool) => (pool === null ? NO_POOL : pool));
    this.rows = nodes.node.map((node, i) => {
      const versions = nodes.versions[i].map((at) => payload.versions[at]);
      const row = {
        i, node, versions, pool: this.pools[nodes.pool[i]], poolAt: nodes.pool[i], peers: nodes.peers[i], link: nodes.link[i],
        version: versions.length ? versions[versions.length - 1] : "", first: nodes.first_s[i], last: nodes.last_s[i],
        decisions: nodes.decisions[i], match: nodes.match[i], admissible: nodes.admissible[i], inferred: nodes.inferred[i], lines: nodes.lines[i],
        hours: nodes.hours[i], counts: payload.columns.map((column) => counts[column.id][i]), out: nodes.outstanding[i],
      };
      row.outAt = new Map(row.out.map(([at, expected, score]) => [at, { expected, score }]));
      row.span = row.first === null ? 0 : (row.last - row.first) / 3600;
      row.problems = payload.columns.reduce((sum, column, at) => sum + (column.problem ? row.counts[at] : 0), 0);
      row.text = visible(`${node} ${row.pool} ${versions.join(" ")}`).toLowerCase();
      return row;
    });
    // Where no node has any there is nothing to see; that nothing is impossible is worth a column.
    this.seen = [...this.columns.keys()].filter((place) => this.columns[place].id === "impossible" || this.rows.some((row) => row.counts[place]));
    this.peak = this.rows.reduce((most, { hours }) => hours.reduce((highest, _, i) => (i % 3 === 2 ? Math.max(highest, hours[i] + hours[i + 1]) : highest), most), 1);
    this.from = this.least((row) => row.first);
    this.to = -this.least((row) => (row.last === null ? null : -row.last));
  }

  least(value) {
    return this.rows.reduce((least, row) => (value(row) === null ? least : Math.min(least, value(row))), Infinity);
  }

  /** Rows that hold every word of the text, of a pool and a version (null: any), in an order. */
  select({ text, pool, version, by, down }) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = this.rows.filter((row) => (pool === null || row.poolAt === pool) && (version === null || row.versions.includes(version)) && words.every((word) => row.text.includes(word)));
    const key = ORDERS[by] || ((row) => row.counts[this.columns.findIndex((column) => column.id === by)]);
    if (by === "worst") return down ? rows : rows.reverse();
    const sign = down ? -1 : 1;
    return rows.sort((a, b) => sign * compared(key(a), key(b)) || a.i - b.i);
  }

  /** Sums of rows that have a value in common, in the order of the values. */
  grouped(values, of) {
    return values.map((name, at) => {
      const rows = this.rows.filter((row) => of(row, at));
      const counts = this.columns.map((_, place) => rows.reduce((sum, row) => sum + row.counts[place], 0));
      return { name, at, nodes: rows.length, out: rows.filter((row) => row.out.length).length, decisions: rows.reduce((sum, row) => sum + row.decisions, 0), counts };
    }).filter((group) => group.nodes);
  }
}

const compared = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);

/** What rows are ordered by, counts apart. */
const ORDERS = {
  worst: (row) => row.i,
  node: (row) => row.node,
  pool: (row) => row.pool,
  version: (row) => row.version,
  span: (row) => row.span,
  out: (row) => (row.out.length ? row.out[0][2] : 0),
  problems: (row) => row.problems / Math.max(row.span, 1),
};
const ASCENDING = new Set(["node", "pool", "version"]);

const SVG = "http://www.w3.org/2000/svg";

/** Problems an hour as bars, the highest for `peak`, and below them where the node has records; `width` and `height` in units of the drawing. */
function hoursDrawing(row, from, to, width, height, peak = null) {
  const svg = document.createElementNS(SVG, "svg");
  const bins = binned(row, from, to, Math.floor(width / 3));
  svg.setAttribute("class", "hours");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${row.problems.toLocaleString("en")} problems, at most ${bins.peak.toLocaleString("en")} in ${bins.hours === 1 ? "an hour" : `${bins.hours} hours`}`);
  const x = (at) => Math.min(Math.max(((at - from) / Math.max(to - from, 1)) * width, 0), width);
  const rect = (left, right, top, bottom) => `M${left.toFixed(1)} ${top.toFixed(1)}H${right.toFixed(1)}V${bottom.toFixed(1)}H${left.toFixed(1)}Z`;
  const paths = { span: "", problems: "", impossible: "" };
  const floor = height - 2;
  if (row.first !== null) paths.span = rect(x(row.first), Math.max(x(row.last), x(row.first) + 1), floor, height);
  for (const [at, problems, impossible] of bins.bins) {
    const [left, right] = [x(at), Math.max(x(at + bins.hours * 3600) - 0.4, x(at) + 1.6)];
    // The square root keeps an hour with one problem visible beside one with a hundred.
    const share = Math.sqrt((problems + impossible) / (peak === null ? bins.peak : peak * bins.hours));
    const top = floor - Math.max(Math.min(share, 1) * floor, 2);
    const bad = Math.max(((floor - top) * impossible) / (problems + impossible), height / 6);
    const split = impossible ? Math.min(top + bad, floor) : top;
    if (impossible) paths.impossible += rect(left, right, top, split);
    if (problems) paths.problems += rect(left, right, split, floor);
  }
  for (const [name, drawn] of Object.entries(paths)) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", name);
    path.setAttribute("d", drawn);
    svg.append(path);
  }
  return svg;
}

/** Hours put together so that there are at most `most` bars: begin in seconds, problems, impossible decisions. */
function binned(row, from, to, most) {
  const [first, ...flat] = row.hours.length ? row.hours : [0];
  const hours = Math.max(Math.ceil((to - from) / 3600 / most), 1);
  const found = new Map();
  for (let i = 0; i < flat.length; i += 3) {
    const at = Math.floor((first + flat[i]) / hours) * hours * 3600;
    const [, problems, impossible] = found.get(at) || [at, 0, 0];
    found.set(at, [at, problems + flat[i + 1], impossible + flat[i + 2]]);
  }
  const bins = [...found.values()];
  return { hours, bins, peak: bins.reduce((most_, [, a, b]) => Math.max(most_, a + b), 1) };
}
