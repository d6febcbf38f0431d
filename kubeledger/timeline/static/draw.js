// Rows, items, curves and arrows on a surface. What is drawn follows from drawing, view and layout alone.

const GUTTER = 260;
const HEIGHTS = { section: 20, lane: 20, ticks: 11, curve: 44 };
const DENSE_PX = 9;
const BAR = 13;

/** The rows that are shown, each with its place from the top; folded sections keep their heading. */
function layOut(drawing, folded) {
  const lines = [];
  let y = 0;
  drawing.sections.forEach((section, index) => {
    lines.push({ section: index, y, height: HEIGHTS.section });
    y += HEIGHTS.section;
    if (folded.has(section.id)) return;
    drawing.rows.forEach((row, r) => {
      if (row.section !== index) return;
      lines.push({ row: r, y, height: HEIGHTS[row.shape] });
      y += HEIGHTS[row.shape];
    });
  });
  return { lines, height: y, ofRow: new Map(lines.filter((line) => "row" in line).map((line) => [line.row, line])) };
}

/** Draws one picture: `view` has from, to (microseconds), cursor, selected; `top` and `bottom` bound the lines drawn. */
class Painter {
  constructor(surface, drawing, view, layout) {
    Object.assign(this, { surface, drawing, view, layout });
    this.scale = (surface.width - GUTTER) / (view.to - view.from);
  }

  x(time) { return GUTTER + (time - this.view.from) * this.scale; }

  paint(top, bottom) {
    const shown = this.layout.lines.filter((line) => line.y + line.height > top && line.y < bottom);
    this.grid(bottom - top);
    for (const line of shown) {
      if ("row" in line) this.row(line, line.y - top);
      else this.heading(line, line.y - top);
    }
    const { surface } = this;
    surface.clipped(GUTTER, 0, surface.width - GUTTER, bottom - top, () => {
      this.arrows(top, bottom);
      this.view.overlay?.paint(this, top, bottom);
      this.selection(top);
      this.cursor(bottom - top);
    });
    return shown;
  }

  grid(height) {
    const { ticks } = this.view.clock.ticks(this.view.from, this.view.to, 95 / this.scale);
    for (const tick of ticks) this.surface.rect(Math.round(this.x(tick)), 0, 1, height, "grid");
  }

  heading(line, y) {
    const section = this.drawing.sections[line.section];
    const sign = this.view.folded.has(section.id) ? "▸" : "▾";
    this.surface.rect(0, y, this.surface.width, line.height, "heading");
    this.surface.text(`${sign} ${visible(section.title)}`, 8, y + line.height / 2, "text", { bold: true });
  }

  row(line, y) {
    const row = this.drawing.rows[line.row];
    if (row.shape !== "ticks") this.caption(row, line, y);
    this.surface.clipped(GUTTER, y, this.surface.width - GUTTER, line.height, () => {
      if (row.shape === "curve") this.curve(line, y);
      else if (row.shape === "ticks") this.ticks(line, y);
      else this.lane(line, y);
    });
  }

  caption(row, line, y) {
    const { surface, view, drawing } = this;
    const middle = y + HEIGHTS.lane / 2;
    const state = view.cursor === null ? "" : visible(drawing.stateAt(line.row, view.cursor));
    const room = GUTTER - 20 - row.depth * 14 - (state ? textWidth(state) + 10 : 0);
    const name = row.note ? `${row.label}  ${row.note}` : row.label;
    surface.text(fitted(visible(name), room), 8 + row.depth * 14, middle, row.depth ? "faint" : "text");
    surface.text(state, GUTTER - 8, middle, "cursor", { align: "right" });
    surface.rect(0, y + line.height - 1, surface.width, 1, "rule");
  }

  lane(line, y) {
    const middle = y + line.height / 2;
    const marks = [];
    let painted = -1;
    this.drawing.inWindow(line.row, this.view.from, this.view.to, (i) => {
      const kind = this.drawing.kindOf(i);
      if (kind.glyph) marks.push(i);
      else if (kind.bar) painted = this.bar(i, kind, middle, painted);
    });
    this.marks(marks, middle);
  }

  bar(i, kind, middle, painted) {
    const { surface, drawing } = this;
    const from = Math.max(this.x(drawing.start[i]), GUTTER - 2);
    const to = Math.min(this.x(drawing.end[i]), surface.width + 2);
    const width = Math.max(to - from, 1);
    if (from + width <= painted && !drawing.verdict[i]) return painted;
    const top = middle - BAR / 2;
    this.shape(kind.bar, from, top, width);
    if (width > 22) {
      const label = fitted(visible(drawing.labelOf(i)), width - 7);
      if (label && (kind.bar === "hatched")) surface.rect(from + 2, top + 1, textWidth(label) + 4, BAR - 2, "paper");
      surface.text(label, from + 4, middle, kind.bar === "rejected" ? "bad" : "text");
    }
    if (kind.bar === "running" && from > GUTTER) surface.rect(from, top, 1.5, BAR, "edge");
    if (drawing.verdict[i]) this.verdict(drawing.verdict[i], from, middle);
    return from + width;
  }

  shape(bar, x, y, width) {
    const { surface } = this;
    if (bar === "outline") {
      surface.rect(x, y + 3, width, BAR - 6, "paper");
      surface.frame(x, y + 3, width, BAR - 6, "edgeQuiet");
    } else if (bar === "hatched") {
      surface.rect(x, y, width, BAR, "paper");
      surface.hatch(x, y, width, BAR, "edgeQuiet");
      surface.frame(x, y, width, BAR, "edgeQuiet");
    } else if (bar === "dotted") {
      surface.line([[x, y + BAR / 2], [x + width, y + BAR / 2]], "edgeQuiet", 1, [1, 3]);
    } else {
      surface.rect(x, y, width, BAR, `bar_${bar}`);
    }
  }

  /** Marks one by one where there is room; of a few at one place the most telling one, of a crowd a strip that counts. */
  marks(marks, middle) {
    let group = [];
    const flush = () => {
      if (group.length) this.group(group, middle);
      group = [];
    };
    let previous = -Infinity;
    for (const i of marks) {
      const x = this.x(this.drawing.start[i]);
      if (x - previous >= DENSE_PX) flush();
      group.push(i);
      previous = x;
    }
    flush();
  }

  group(group, middle) {
    const { drawing } = this;
    const [from, to] = [this.x(drawing.start[group[0]]), this.x(drawing.start[group[group.length - 1]])];
    if (group.length > 2 && to - from > 1.5 * DENSE_PX) {
      this.strip(group, middle, from - 3, to + 3);
      return;
    }
    const weight = (i) => (drawing.kindOf(i).weight || 0) + (drawing.isProblem(i) ? 1 : 0);
    const heaviest = Math.max(...group.map(weight));
    for (const i of group) if (weight(i) === heaviest || group.length === 2) this.glyph(i, this.x(drawing.start[i]), middle);
  }

  strip(group, middle, from, to) {
    const { surface, drawing } = this;
    const bad = group.filter((i) => drawing.isProblem(i)).length;
    const verdict = Math.max(0, ...group.map((i) => [0, 1, 3, 2][drawing.verdict[i]]));
    surface.rect(from, middle - 4, to - from, 8, bad ? "bad" : "edgeQuiet");
    const text = String(bad || group.length);
    if (textWidth(text) + 4 < to - from) surface.text(text, (from + to) / 2, middle, "paper", { align: "center", bold: true });
    if (verdict) this.verdict([0, 1, 3, 2][verdict], to, middle);
  }

  glyph(i, x, y) {
    const { drawing, surface } = this;
    const kind = drawing.kindOf(i);
    const colour = kind.bad ? "bad" : "edge";
    GLYPHS[kind.glyph](surface, x, y, colour);
    if (drawing.verdict[i]) this.verdict(drawing.verdict[i], x, y);
    if (kind.glyph === "stop" || kind.glyph === "barred") surface.text(visible(drawing.labelOf(i)), x + 7, y, kind.bad ? "bad" : "text");
  }

  /** A match costs no ink; the other three have a shape and a colour each. */
  verdict(verdict, x, y) {
    const { surface } = this;
    if (verdict === 1) {
      surface.circle(x, y, 7.5, "admissible");
      surface.text("≈", x + 9, y - 6, "admissible", { bold: true });
    } else if (verdict === 2) {
      surface.frame(x - 9, y - 9, 18, 18, "impossible", 2);
      surface.text("!", x + 12, y - 5, "impossible", { bold: true });
    } else {
      surface.circle(x, y, 7.5, "unverifiable", 1.5, [2, 2]);
      surface.text("?", x + 9, y - 6, "unverifiable", { bold: true });
    }
  }

  /** Probe ticks: a pixel column each at most, failures taller and of another colour. */
  ticks(line, y) {
    const { drawing, surface } = this;
    const last = { good: -1, bad: -1, other: -1 };
    this.drawing.inWindow(line.row, this.view.from, this.view.to, (i) => {
      const x = Math.round(this.x(drawing.start[i]));
      const { tick } = drawing.kindOf(i);
      if (!tick || x - last[tick] < (tick === "good" ? 3 : 2)) return;
      last[tick] = x;
      if (tick === "good") surface.rect(x, y + 4, 1.5, 3, "good");
      else surface.rect(x, y, 1.5, 9, tick === "bad" ? "bad" : "unverifiable");
    });
  }

  curve(line, y) {
    const { surface } = this;
    const curve = this.drawing.curveOfRow.get(line.row);
    const bottom = y + line.height - 5;
    const height = line.height - 12;
    const top = Math.max(curve.max || 0, ...curve.value, ...curve.limits.map((limit) => limit.value)) || 1;
    const place = (value) => bottom - (height * value) / top;
    const points = [];
    curve.at.forEach((at, i) => {
      if (i) points.push([this.x(at), place(curve.value[i - 1])]);
      points.push([this.x(at), place(curve.value[i])]);
    });
    if (points.length) {
      const end = Math.min(this.x(this.drawing.spanUs), surface.width);
      points.push([Math.max(end, points[points.length - 1][0]), points[points.length - 1][1]]);
      surface.area([...points, [points[points.length - 1][0], bottom], [points[0][0], bottom]], "area");
      surface.line(points, "edge", 1.2);
      const last = curve.value[curve.value.length - 1];
      const tip = points[points.length - 1];
      surface.text(`${formatValue(last)} ${curve.unit}`, Math.min(tip[0], surface.width) - 4, tip[1] + 8, "edge", { align: "right" });
    }
    let x = GUTTER + 5;
    for (const limit of curve.limits) {
      surface.line([[GUTTER, place(limit.value)], [surface.width, place(limit.value)]], "bad", 1, [4, 3]);
      const text = visible(limit.label);
      surface.text(text, x, place(limit.value) - 6 < y + 4 ? place(limit.value) + 7 : place(limit.value) - 6, "bad");
      x += textWidth(text) + 12;
    }
  }

  arrows(top, bottom) {
    for (const { from, to } of this.drawing.arrows) {
      const a = this.layout.ofRow.get(this.drawing.row[from]);
      const b = this.layout.ofRow.get(this.drawing.row[to]);
      if (!a || !b || Math.max(a.y, b.y) < top || Math.min(a.y, b.y) > bottom) continue;
      const [x0, x1] = [this.x(this.drawing.start[from]), this.x(this.drawing.start[to])];
      if (Math.max(x0, x1) < GUTTER || Math.min(x0, x1) > this.surface.width) continue;
      const [y0, y1] = [a.y - top + HEIGHTS.lane / 2, b.y - top + HEIGHTS.lane / 2];
      this.surface.bow(x0, y0, x1 - 4, y1, 28 + Math.min(Math.abs(y1 - y0) / 8, 30), "bad");
      this.surface.area([[x1 - 2, y1], [x1 - 9, y1 - 4], [x1 - 9, y1 + 4]], "bad");
    }
  }

  selection(top) {
    const i = this.view.selected;
    const line = i === null ? null : this.layout.ofRow.get(this.drawing.row[i]);
    if (!line) return;
    const x = this.x(this.drawing.start[i]);
    const width = this.drawing.kindOf(i).bar ? Math.max(this.x(this.drawing.end[i]) - x, 6) : 18;
    const left = this.drawing.kindOf(i).bar ? x : x - 9;
    this.surface.frame(left - 1, line.y - top, width + 2, Math.max(line.height - 1, 9), "text", 2);
  }

  cursor(height) {
    if (this.view.cursor === null) return;
    this.surface.rect(Math.round(this.x(this.view.cursor)), 0, 1, height, "cursor");
  }
}

const GLYPHS = {
  edge: (s, x, y, c) => s.rect(x - 0.75, y - BAR / 2, 1.5, BAR, c),
  cross: (s, x, y, c) => { s.line([[x - 4, y - 4], [x + 4, y + 4]], c, 2.5); s.line([[x - 4, y + 4], [x + 4, y - 4]], c, 2.5); },
  down: (s, x, y, c) => s.area([[x - 5, y - 4], [x + 5, y - 4], [x, y + 5]], c),
  small_down: (s, x, y, c) => s.area([[x - 3.5, y - 7], [x + 3.5, y - 7], [x, y - 1]], c),
  small_up: (s, x, y) => s.area([[x - 3.5, y - 1], [x + 3.5, y - 1], [x, y - 7]], "good"),
  eject: (s, x, y, c) => { s.area([[x - 5, y + 1], [x + 5, y + 1], [x, y - 6]], c); s.rect(x - 5, y + 3, 10, 2.5, c); },
  barred: (s, x, y, c) => { s.circle(x, y, 5, c, 2); s.line([[x - 3.5, y + 3.5], [x + 3.5, y - 3.5]], c, 2); },
  burst: (s, x, y, c) => {
    s.area([[x, y - 7], [x + 2, y - 2], [x + 7, y], [x + 2, y + 2], [x, y + 7], [x - 2, y + 2], [x - 7, y], [x - 2, y - 2]], c);
  },
  square: (s, x, y, c) => s.frame(x - 4, y - 4, 8, 8, c, 1.5),
  warning: (s, x, y, c) => { s.area([[x - 6, y + 5], [x + 6, y + 5], [x, y - 6]], c); s.text("!", x, y + 1.5, "paper", { align: "center", bold: true }); },
  stop: (s, x, y) => s.rect(x - 1, y - BAR / 2, 2.5, BAR, "text"),
  flag: (s, x, y, c) => { s.rect(x - 0.75, y - 8, 1.5, 16, c); s.area([[x, y - 8], [x + 7, y - 5], [x, y - 2]], c); },
  step: (s, x, y, c) => s.line([[x - 2, y - 7], [x + 2, y - 1], [x - 2, y + 1], [x + 2, y + 7]], c, 2),
};
