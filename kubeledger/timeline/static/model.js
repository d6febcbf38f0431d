// The payload as typed columns: what the page draws, and nothing of how.

const VERDICTS = ["match", "admissible", "impossible", "unverifiable"];

/** What a kind of item is: how it is drawn, the state it gives its row, whether it went wrong, and how telling it is. */
const KINDS = {
  kubelet: { bar: "running", state: "running", legend: "running" },
  gap: { bar: "hatched", state: "not known", legend: "not known / back-off / held without use" },
  pod: { bar: "quiet", state: "admitted" },
  pressure: { bar: "bad", state: "under pressure", legend: "pressure", bad: true },
  admitted: { bar: "outline", state: "admitted", legend: "admitted, not running" },
  stuck: { bar: "bad", state: "", bad: true, legend: "stuck before its start" },
  waits: { bar: "rejected", state: "", legend: "waits before its start" },
  ready: { bar: "quiet", state: "Ready" },
  not_ready: { bar: "bad", state: "", bad: true, legend: "node not ready" },
  ready_unknown: { bar: "hatched", state: "Unknown", bad: true },
  trouble: { bar: "rejected", state: "", legend: "trouble of the node" },
  running: { bar: "running", state: "running", legend: "running" },
  backoff: { bar: "hatched", state: "back-off", legend: "not known / back-off / held without use" },
  rejected: { bar: "rejected", state: "rejected" },
  held: { bar: "held1", state: "held", legend: "held" },
  held0: { bar: "held0", state: "held", legend: "NUMA node 0" },
  held1: { bar: "held1", state: "held", legend: "NUMA node 1" },
  held_ended: { bar: "hatched", state: "held", legend: "not known / back-off / held without use" },
  values: { bar: "quiet", state: "" },
  image: { bar: "running", state: "present" },
  admission: { glyph: "none" },
  changed: { glyph: "edge" },
  killed: { weight: 1, glyph: "cross", bad: true, legend: "killed or crashed" },
  died: { glyph: "cross", bad: true, legend: "killed or crashed" },
  resized: { glyph: "edge" },
  resize_refused: { glyph: "crossed", bad: true, legend: "resize that does not fit" },
  sandbox: { glyph: "edge" },
  completed: { glyph: "edge" },
  stopped: { glyph: "edge" },
  oom: { weight: 2, glyph: "burst", bad: true, legend: "OOM kill" },
  preempted: { weight: 2, glyph: "down", bad: true, legend: "preempted / threshold reached" },
  evicted: { weight: 2, glyph: "eject", bad: true, legend: "evicted" },
  refused: { weight: 1, glyph: "barred", bad: true, legend: "rejected" },
  threshold: { glyph: "small_down", bad: true, legend: "preempted / threshold reached" },
  gc_freed: { glyph: "square", legend: "image GC freed" },
  gc_failed: { glyph: "warning", bad: true, legend: "image GC failed" },
  reclaim: { glyph: "square", legend: "reclaimed without a pod" },
  reclaim_evicts: { glyph: "full", legend: "reclaimed by an eviction" },
  deleted: { glyph: "stop", legend: "image deleted" },
  kubelet_start: { glyph: "flag" },
  kubelet_restart: { weight: 1, glyph: "flag", bad: true, legend: "kubelet restarted" },
  shutdown: { glyph: "flag", legend: "shutdown or reboot" },
  rebooted: { glyph: "flag", legend: "shutdown or reboot" },
  kubelet_end: { glyph: "cross", bad: true, legend: "killed or crashed" },
  clock_step: { glyph: "step", bad: true, legend: "clock set back" },
  finding: { glyph: "square", legend: "finding about the sources" },
  decision: { glyph: "dot", legend: "decision without a row" },
  not_taken: { glyph: "ring", legend: "decision that did not come" },
  tick_success: { tick: "good", legend: "probe ok" },
  tick_failure: { tick: "bad", bad: true, legend: "probe failed" },
  tick_other: { tick: "other", legend: "probe gave no answer" },
};

/** One node's drawing, decoded once. Times are microseconds after the node's base. */
class Drawing {
  constructor(payload) {
    Object.assign(this, {
      node: payload.node, versions: payload.versions, verdicts: payload.verdicts, only: payload.only, isPart: payload.is_part,
      sections: payload.sections, rows: payload.rows, strings: payload.strings,
      kinds: payload.kinds.map((name) => ({ name, ...(KINDS[name] || { bar: "quiet", state: "" }) })),
      curves: payload.curves, headlines: payload.headlines, problems: payload.problems,
    });
    this.baseNs = BigInt(payload.base_ns);
    this.spanUs = Math.max(payload.span_us, 1);
    this.decodeItems(payload.items);
    for (const curve of this.curves) curve.top = Math.max(...[curve.value, curve.limits.map((limit) => limit.value)].map((values) => values.reduce((a, b) => Math.max(a, b), 0))) || 1;
    this.curveOfRow = new Map(this.curves.map((curve) => [curve.row, curve]));
    this.arrows = payload.arrows;
    this.counts = new Map(Object.entries(payload.counts || {}).map(([i, count]) => [Number(i), count]));
  }

  decodeItems({ row, kind, start, length, label, seq, verdict }) {
    const count = row.length;
    this.row = Int32Array.from(row);
    this.kind = Uint8Array.from(kind);
    this.label = Int32Array.from(label);
    this.seq = Float64Array.from(seq);
    this.verdict = Uint8Array.from(verdict);
    this.start = new Float64Array(count);
    this.end = new Float64Array(count);
    this.first = new Int32Array(this.rows.length + 1).fill(count);
    let previous = -1;
    let time = 0;
    for (let i = 0; i < count; i++) {
      if (row[i] !== previous) {
        for (let r = previous + 1; r <= row[i]; r++) this.first[r] = i;
        previous = row[i];
        time = 0;
      }
      time += start[i];
      this.start[i] = time;
      this.end[i] = length[i] < 0 ? Math.max(this.spanUs, time) : time + length[i];
    }
    this.longest = this.longestBars();
    this.bySeq = new Map();
    for (let i = count - 1; i >= 0; i--) if (seq[i]) this.bySeq.set(seq[i], i);
  }

  /** Of each row the longest item: how far before the window one must look for what reaches into it. */
  longestBars() {
    const longest = new Float64Array(this.rows.length);
    for (let i = 0; i < this.row.length; i++) {
      const length = this.end[i] - this.start[i];
      if (length > longest[this.row[i]]) longest[this.row[i]] = length;
    }
    return longest;
  }

  /** Calls visit(i) for the row's items that touch [from, to], in the order of their start. */
  inWindow(row, from, to, visit) {
    const last = this.first[row + 1];
    for (let i = this.lowerBound(row, from - this.longest[row]); i < last && this.start[i] <= to; i++) {
      if (this.end[i] >= from) visit(i);
    }
  }

  lowerBound(row, time) {
    let low = this.first[row];
    let high = this.first[row + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  kindOf(i) { return this.kinds[this.kind[i]]; }

  labelOf(i) { return this.strings[this.label[i]]; }

  /** Whether anything of it shows although nothing went wrong: an admission that matches costs no ink. */
  isSeen(i) { return this.kindOf(i).glyph !== "none" || this.verdict[i] > 0; }

  isProblem(i) { return this.kindOf(i).bad === true || this.verdict[i] === 2; }

  /** What a row is at an instant, in a word; "" where it is not known. */
  stateAt(row, time) {
    const curve = this.curveOfRow.get(row);
    if (curve) return curveAt(curve, time);
    let state = "";
    this.inWindow(row, time, time, (i) => {
      const kind = this.kindOf(i);
      if (kind.bar) state = kind.state || this.labelOf(i);
    });
    return state || this.restingState(row, time);
  }

  /** The state of a row in which nothing lasts at that time. */
  restingState(row, time) {
    const section = this.sections[this.rows[row].section].id;
    if (["devices", "claims", "cpus"].includes(section)) return "free";
    const began = this.first[row] < this.first[row + 1] && this.start[this.first[row]] <= time;
    if (!began || section === "node" || section === "cgroups") return "";
    return section === "images" ? "deleted" : "not running";
  }
}

function curveAt(curve, time) {
  let value = null;
  for (let i = 0; i < curve.at.length && curve.at[i] <= time; i++) value = curve.value[i];
  return value === null ? "" : `${formatValue(value)} ${curve.unit}`;
}

function formatValue(value) {
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}
