// What part of which node is shown, and the redrawing of it.

class View {
  constructor(drawing) {
    this.drawing = drawing;
    this.clock = new Clock(drawing.baseNs);
    this.folded = new Set(drawing.sections.filter((section) => section.folded).map((section) => section.id));
    this.cursor = null;
    this.selected = null;
    this.layout = layOut(drawing, this.folded);
    this.whole();
  }

  whole() {
    const margin = this.drawing.spanUs * 0.01;
    [this.from, this.to] = [-margin, this.drawing.spanUs + margin];
  }

  /** Show [from, to], kept within the drawing and no shorter than a tenth of a millisecond. */
  show(from, to) {
    const margin = this.drawing.spanUs * 0.05;
    const length = Math.min(Math.max(to - from, 100), this.drawing.spanUs + 2 * margin);
    const middle = (from + to) / 2;
    const start = Math.min(Math.max(middle - length / 2, -margin), this.drawing.spanUs + margin - length);
    [this.from, this.to] = [start, start + length];
  }

  zoom(factor, around) {
    const at = around === undefined ? this.cursorInView() : around;
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  cursorInView() {
    const inside = this.cursor !== null && this.cursor >= this.from && this.cursor <= this.to;
    return inside ? this.cursor : (this.from + this.to) / 2;
  }

  fold(id) {
    if (!this.folded.delete(id)) this.folded.add(id);
    this.layout = layOut(this.drawing, this.folded);
  }

  /** Look where another view of the same node looked, which may have begun and ended at other times. */
  continueFrom(other) {
    const shift = Number(other.drawing.baseNs - this.drawing.baseNs) / 1e3;
    this.clock.local = other.clock.local;
    this.folded = other.folded;
    this.layout = layOut(this.drawing, this.folded);
    if (other.from > 0 || other.to < other.drawing.spanUs) this.show(other.from + shift, other.to + shift);
    if (other.cursor !== null) this.cursor = other.cursor + shift;
    if (other.selected !== null) this.selected = this.drawing.bySeq.get(other.drawing.seq[other.selected]) ?? null;
  }

  unfoldFor(i) {
    const section = this.drawing.sections[this.drawing.rows[this.drawing.row[i]].section];
    if (this.folded.has(section.id)) this.fold(section.id);
  }
}

const COLOURS = [
  "paper", "text", "faint", "grid", "rule", "heading", "edge", "edgeQuiet", "area", "bad", "good", "cursor", "brush",
  "admissible", "impossible", "unverifiable", "overview",
  "bar_running", "bar_quiet", "bar_held0", "bar_held1", "bar_rejected", "bar_bad",
];

function colours(of = document.documentElement) {
  const style = getComputedStyle(of);
  return Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** The three canvases of the chart: overview, axis, rows. Redraws at most once a frame. */
class Chart {
  constructor(view) {
    this.scroller = document.getElementById("scroll");
    this.spacer = document.getElementById("spacer");
    this.canvases = ["overview", "axis", "rows"].map((id) => document.getElementById(id));
    this.frames = [];
    this.afterDraw = () => {};
    this.retheme();
    this.show(view);
  }

  retheme() {
    this.colours = colours();
    [this.overview, this.axis, this.rows] = this.canvases.map((canvas) => new CanvasSurface(canvas, this.colours));
    this.counts = null;
  }

  show(view) {
    this.view = view;
    this.counts = null;
    this.scroller.scrollTop = 0;
    this.redraw();
  }

  /** Show the same node's newer drawing without moving. */
  replace(view) {
    this.view = view;
    this.counts = null;
    this.redraw();
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    const began = performance.now();
    const { view } = this;
    const width = this.scroller.clientWidth;
    const height = this.scroller.clientHeight;
    fitGutter(width);
    this.spacer.style.height = `${Math.max(view.layout.height - height, 0)}px`;
    this.rows.resize(width, height);
    const top = this.scroller.scrollTop;
    this.lines = new Painter(this.rows, view.drawing, view, view.layout).paint(top, top + height);
    this.drawAxis(width);
    this.drawOverview(width);
    this.frames.push(performance.now() - began);
    if (this.frames.length > 600) this.frames.shift();
    this.afterDraw();
  }

  drawAxis(width) {
    const { axis, view } = this;
    axis.resize(width, 22);
    const scale = (width - GUTTER) / (view.to - view.from);
    const { ticks, step } = view.clock.ticks(view.from, view.to, 95 / scale);
    let date = "";
    for (const tick of ticks) {
      const x = GUTTER + (tick - view.from) * scale;
      const day = view.clock.date(tick);
      const text = day === date || view.drawing.spanUs < 36e8 * 12 ? view.clock.time(tick, step) : `${day.slice(5)} ${view.clock.time(tick, step)}`;
      date = day;
      axis.rect(Math.round(x), 14, 1, 8, "grid");
      if (x + textWidth(text) < width) axis.text(text, x + 4, 10, "faint");
    }
    if (view.cursor === null) {
      axis.text(`${visible(view.clock.date(view.from))} ${view.clock.zone()}`, 8, 11, "faint");
      return;
    }
    const text = view.clock.dated(view.cursor, 0);
    axis.text(`state at ${text}`, 8, 11, "cursor");
    const x = GUTTER + (view.cursor - view.from) * scale;
    if (x < GUTTER || x > width) return;
    const left = Math.min(Math.max(x - 2, GUTTER), width - textWidth(text) - 8);
    axis.rect(left, 2, textWidth(text) + 8, 18, "cursor");
    axis.text(text, left + 4, 11, "paper");
  }

  drawOverview(width) {
    const { overview, view } = this;
    const bottom = 34;
    overview.resize(width, 36);
    const red = "red = what went wrong";
    const label = `overview · ${red}`;
    overview.text(textWidth(label) < GUTTER - 12 ? label : red, 8, 18, "faint");
    const bins = this.histogram(Math.max(Math.floor((width - GUTTER) / 4), 1));
    const most = Math.log1p(Math.max(1, ...bins));
    const scale = (width - GUTTER) / view.drawing.spanUs;
    const [from, to] = [Math.max(view.from, 0), Math.min(view.to, view.drawing.spanUs)];
    overview.rect(GUTTER + from * scale, 0, Math.max((to - from) * scale, 2), 36, "brush");
    bins.forEach((count, b) => {
      const height = (24 * Math.log1p(count)) / most;
      overview.rect(GUTTER + b * 4, bottom - height, 3, height, "overview");
    });
    for (const headline of view.drawing.headlines) overview.rect(GUTTER + headline.at * scale - 1, 2, 2.5, bottom - 2, "bad");
    view.overlay?.overview(overview, scale);
  }

  histogram(count) {
    if (!this.counts || this.counts.length !== count) {
      const { drawing } = this.view;
      this.counts = new Array(count).fill(0);
      for (let i = 0; i < drawing.start.length; i++) {
        this.counts[Math.min(Math.floor((drawing.start[i] * count) / drawing.spanUs), count - 1)]++;
      }
    }
    return this.counts;
  }

  timeAt(x) {
    const scale = (this.scroller.clientWidth - GUTTER) / (this.view.to - this.view.from);
    return this.view.from + (x - GUTTER) / scale;
  }

  lineAt(y) {
    const at = y + this.scroller.scrollTop;
    return this.view.layout.lines.find((line) => at >= line.y && at < line.y + line.height);
  }

  /** The item under the pointer: the nearest mark within 9 pixels, else the bar. */
  itemAt(x, y) {
    const line = this.lineAt(y);
    if (!line || !("row" in line) || x < GUTTER) return null;
    const { drawing } = this.view;
    const time = this.timeAt(x);
    const reach = this.timeAt(x + 9) - time;
    let best = null;
    let nearest = Infinity;
    drawing.inWindow(line.row, time - reach, time + reach, (i) => {
      if (!drawing.isSeen(i)) return;
      const instant = !drawing.kindOf(i).bar;
      const distance = instant ? Math.abs(drawing.start[i] - time) / reach : 2;
      if (distance < nearest || (distance === nearest && !instant)) [best, nearest] = [i, distance];
    });
    return best;
  }

  /** Bring an item into view: its section open, its row on the screen, its time in the window. */
  reveal(i) {
    const { view } = this;
    const { drawing } = view;
    view.unfoldFor(i);
    const start = drawing.start[i];
    const length = view.to - view.from;
    if (start < view.from || start > view.to) view.show(start - length / 2, start + length / 2);
    const line = view.layout.ofRow.get(drawing.row[i]);
    const height = this.scroller.clientHeight;
    this.spacer.style.height = `${Math.max(view.layout.height - height, 0)}px`;
    if (line.y < this.scroller.scrollTop || line.y + line.height > this.scroller.scrollTop + height) {
      this.scroller.scrollTop = Math.max(line.y - height / 2, 0);
    }
  }
}
