// Rows, items, curves and arrows on a surface. What is drawn follows from drawing, view and layout alone.

let GUTTER = 260;
const HEIGHTS = { section: 20, lane: 20, ticks: 11, curve: 38 };
const DENSE_PX = 9;
const DENSE_VERDICTS_PX = 18;
const BAR = 13;

/** Room for the names of rows: less where the window is narrow. */
function fitGutter(width) { GUTTER = width < 760 ? 170 : 260; }

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
    const current = view.cursor === null ? "" : visible(drawing.stateAt(line.row, view.cursor));
    const state = fitted(current, Math.max(GUTTER - 32 - row.depth * 14 - textWidth(visible(row.label)), GUTTER * 0.3));
    const room = GUTTER - 20 - row.depth * 14 - (state ? textWidth(state) + 10 : 0);
    const name = row.note ? `${row.label}  ${row.note}` : row.label;
    surface.text(fittedEnds(visible(name), room), 8 + row.depth * 14, middle, row.depth ? "faint" : "text");
    surface.text(state, GUTTER - 8, middle, "cursor", { align: "right" });
    surface.rect(0, y + line.height - 1, surface.width, 1, "rule");
  }

  lane(line, y) {
    const middle = y + line.height / 2;
    const marks = [];
    const bars = [];
    let painted = -1;
    this.drawing.inWindow(line.row, this.view.from, this.view.to, (i) => {
      const kind = this.drawing.kindOf(i);
      if (kind.glyph) {
        if (this.drawing.isSeen(i)) marks.push(i);
      } else if (kind.bar) {
        const [from, to] = this.extent(i);
        if (to <= painted && to - from <= 1 && !this.drawing.verdict[i]) return;
        painted = Math.max(painted, to);
        bars.push({ i, kind, from, to });
        this.bar(i, kind, middle, from, to);
      }
    });
    const taken = this.marks(marks, middle);
    bars.forEach((bar, b) => this.barLabel(bar, middle, taken, bars[b + 1]));
    for (const { i, from } of bars) if (this.drawing.verdict[i]) this.verdict(this.drawing.verdict[i], from, middle);
  }

  extent(i) {
    const from = Math.max(this.x(this.drawing.start[i]), GUTTER - 2);
    return [from, Math.max(Math.min(this.x(this.drawing.end[i]), this.surface.width + 2), from + 1)];
  }

  /** A bar; without a left edge, and pointed, when it began before the drawing. */
  bar(i, kind, middle, from, to) {
    const { surface } = this;
    const top = middle - BAR / 2;
    this.shape(kind.bar, from, top, to - from);
    if (kind.bar !== "running") return;
    if (this.drawing.start[i] < 0) surface.area([[from - 1, top - 1], [from + 5, top - 1], [from - 1, middle], [from + 5, top + BAR + 1], [from - 1, top + BAR + 1]], "paper");
    else if (from > GUTTER) surface.rect(from, top, 1.5, BAR, "edge");
  }

  /** The bar's text in the first room that no mark takes, or in the widest. */
  barLabel({ i, kind, from, to }, middle, taken, next) {
    const { surface, drawing } = this;
    const text = visible(drawing.labelOf(i));
    const end = next && next.from > from ? Math.min(to, next.from) : to;
    if (!text || end - from < 14) return;
    const width = textWidth(text) + 1;
    let best = null;
    let at = from + 3;
    for (const [left, right] of [...taken, [end - 2, Infinity]]) {
      if (right < at) continue;
      const room = Math.min(left, end - 2) - at;
      if (room >= width) { best = { at, room }; break; }
      if (!best || room > best.room) best = { at, room };
      at = Math.max(at, right);
      if (at >= end) break;
    }
    const label = best ? fitted(text, best.room - 1) : "";
    if (!label || (label.length < 4 && label !== text)) return;
    if (kind.bar === "hatched") surface.rect(best.at - 1, middle - BAR / 2 + 1, textWidth(label) + 4, BAR - 2, "paper");
    surface.text(label, best.at + 1, middle, kind.bar === "rejected" ? "bad" : "text");
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
    } else {
      surface.rect(x, y, width, BAR, `bar_${bar}`);
    }
  }

  /** Marks one by one where there is room; of a few at one place the most telling one, of a crowd a strip that counts. */
  marks(marks, middle) {
    const { drawing } = this;
    const taken = [];
    let group = [];
    let previous = -Infinity;
    const flush = () => { if (group.length) taken.push(this.group(group, middle)); };
    for (const i of marks) {
      const x = this.x(drawing.start[i]);
      const near = drawing.verdict[i] && group.some((j) => drawing.verdict[j]) ? DENSE_VERDICTS_PX : DENSE_PX;
      if (x - previous >= near) {
        flush();
        group = [];
      }
      group.push(i);
      previous = x;
    }
    flush();
    for (const [, right, label] of taken) if (label) this.markLabel(label, right, middle, taken);
    return taken;
  }

  /** Draws a group and gives the room that it takes: left, right, and the mark whose label may follow. */
  group(group, middle) {
    const { drawing } = this;
    const [from, to] = [this.x(drawing.start[group[0]]), this.x(drawing.start[group[group.length - 1]])];
    if (group.length > 2 && to - from > 1.5 * DENSE_PX) return this.strip(group, middle, from - 3, to + 3);
    const weight = (i) => (drawing.kindOf(i).weight || 0) + (drawing.isProblem(i) ? 1 : 0) + (drawing.verdict[i] ? 0.5 : 0);
    const heaviest = Math.max(...group.map(weight));
    let label = null;
    for (const i of group) {
      if (weight(i) !== heaviest && group.length !== 2) continue;
      this.glyph(i, this.x(drawing.start[i]), middle);
      if (["stop", "barred"].includes(drawing.kindOf(i).glyph)) label = i;
    }
    const reach = group.some((i) => drawing.verdict[i]) ? 9 : drawing.kindOf(group[0]).glyph === "edge" ? 2 : 6;
    return [from - reach, to + reach, label];
  }

  /** What a mark says beside it, as far as nothing else begins there. */
  markLabel(i, from, middle, taken) {
    const kind = this.drawing.kindOf(i);
    const next = taken.find(([left]) => left > from);
    const room = Math.min(next ? next[0] : Infinity, this.surface.width) - from - 4;
    this.surface.text(fitted(visible(this.drawing.labelOf(i)), room), from + 2, middle, kind.bad ? "bad" : "text");
  }

  strip(group, middle, from, to) {
    const { surface, drawing } = this;
    const bad = group.filter((i) => drawing.isProblem(i)).length;
    surface.rect(from, middle - 4, to - from, 8, bad ? "bad" : "edgeQuiet");
    const text = String(bad || group.length);
    if (textWidth(text) + 4 < to - from) surface.text(text, (from + to) / 2, middle, "paper", { align: "center", bold: true });
    const worst = [2, 3, 1].find((verdict) => group.some((i) => drawing.verdict[i] === verdict));
    if (!worst) return [from, to, null];
    this.verdict(worst, to + 8, middle, 1);
    return [from, to + 24, null];
  }

  glyph(i, x, y) {
    const { drawing, surface } = this;
    const kind = drawing.kindOf(i);
    GLYPHS[kind.glyph](surface, x, y, kind.bad ? "bad" : "edge");
    if (drawing.verdict[i]) this.verdict(drawing.verdict[i], x, y);
  }

  /** A match costs no ink; the other three have a shape and a colour each, and a sign to the left (-1) or right (1) of it. */
  verdict(verdict, x, y, side = x - 20 < GUTTER && this.view ? 1 : -1) {
    const { surface } = this;
    const sign = (text, away, up, colour) => surface.text(text, x + side * away, y - up, colour, { bold: true, align: side < 0 ? "right" : "left", halo: true });
    if (verdict === 1) {
      surface.circle(x, y, 7.5, "admissible");
      sign("≈", 8, 6, "admissible");
    } else if (verdict === 2) {
      surface.frame(x - 9, y - 9, 18, 18, "impossible", 2);
      sign("!", 11, 5, "impossible");
    } else {
      surface.circle(x, y, 7.5, "unverifiable", 1.5, [2, 2]);
      sign("?", 8, 6, "unverifiable");
    }
  }

  /** Probe ticks: a pixel column each at most, failures taller and of another colour; runs by their count. */
  ticks(line, y) {
    const { drawing, view } = this;
    const last = { good: -1, bad: -1, other: -1 };
    drawing.inWindow(line.row, view.from, view.to, (i) => {
      const { tick } = drawing.kindOf(i);
      const count = drawing.counts.get(i) || 1;
      const period = count > 1 ? (drawing.end[i] - drawing.start[i]) / (count - 1) : 0;
      // Of a run no more is visited than there are pixels.
      const stride = period ? Math.max(1, Math.ceil(2 / (period * this.scale))) : 1;
      const first = period ? Math.max(0, Math.floor((view.from - drawing.start[i]) / (period * stride)) * stride) : 0;
      for (let k = first; k < count; k += stride) {
        const time = drawing.start[i] + k * period;
        if (time > view.to) break;
        this.tick(tick, Math.round(this.x(time)), y, last);
      }
    });
  }

  tick(tick, x, y, last) {
    if (x - last[tick] < (tick === "good" ? 3 : 2)) return;
    last[tick] = x;
    if (tick === "good") this.surface.rect(x, y + 4, 1.5, 3, "good");
    else this.surface.rect(x, y, 1.5, 9, tick === "bad" ? "bad" : "unverifiable");
  }

  curve(line, y) {
    const { surface, view } = this;
    const curve = this.drawing.curveOfRow.get(line.row);
    const bottom = y + line.height - 5;
    const height = line.height - 10;
    const top = curve.top;
    const place = (value) => bottom - (height * value) / top;
    const points = [];
    curve.at.forEach((at, i) => {
      if (i) points.push([this.x(at), place(curve.value[i - 1])]);
      points.push([this.x(at), place(curve.value[i])]);
    });
    const end = Math.min(this.x(this.drawing.spanUs), surface.width);
    points.push([Math.max(end, points[points.length - 1][0]), points[points.length - 1][1]]);
    surface.area([...points, [points[points.length - 1][0], bottom], [points[0][0], bottom]], "area");
    surface.line(points, "edge", 1.2);
    const boxes = [];
    const tip = points.filter(([x]) => x <= surface.width).pop() || points[0];
    const value = curveAt(curve, view.to);
    // All lines before all words: no line goes through a word.
    const limits = curve.limits.flatMap((limit) => this.limit(limit, place(limit.value)));
    this.curveLabel(value, Math.min(end, surface.width) - 5 - textWidth(value), tip[1], y, line.height, "edge", boxes);
    for (const { text, x, at } of limits) this.curveLabel(text, x, at, y, line.height, "bad", boxes);
  }

  /** A threshold as long as it was in force, with a tick where it began meanwhile; gives its label's place. */
  limit(limit, at) {
    const { surface } = this;
    const from = Math.max(this.x(limit.from), GUTTER);
    const to = limit.to === null ? surface.width : Math.min(this.x(limit.to), surface.width);
    if (to <= from) return [];
    surface.line([[from, at], [to, at]], "bad", 1, [4, 3]);
    if (from > GUTTER && limit.from > this.drawing.spanUs / 1e3) surface.rect(from, at - 4, 1.5, 8, "bad");
    return [{ text: visible(limit.label), x: from + 5, at }];
  }

  /** A label above or below a line of a curve, moved to the right until it stands on no other; left out where none fits. */
  curveLabel(text, x, line, y, height, colour, boxes) {
    const width = textWidth(text);
    const inside = (middle) => middle - 6 >= y && middle + 6 <= y + height;
    const free = (left, middle) => boxes.every((box) => left + width + 4 < box.left || left > box.right + 4 || Math.abs(middle - box.middle) > 10);
    for (let left = x; left + width <= this.surface.width; left += 20) {
      const middle = [line - 7, line + 7].find((each) => inside(each) && free(left, each));
      if (middle === undefined) continue;
      boxes.push({ left, right: left + width, middle });
      this.surface.text(text, left, middle, colour, { halo: true });
      return;
    }
  }

  arrows(top, bottom) {
    const chosen = this.view.selected === null ? 0 : this.drawing.seq[this.view.selected];
    for (const { from, to, quiet } of this.drawing.arrows) {
      if (quiet && (!chosen || (this.drawing.seq[from] !== chosen && this.drawing.seq[to] !== chosen))) continue;
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
  none: () => {},
  dot: (s, x, y, c) => s.rect(x - 2, y - 2, 4, 4, c),
  ring: (s, x, y, c) => s.circle(x, y, 3.5, c, 1.5, [2, 2]),
  full: (s, x, y, c) => s.rect(x - 4, y - 4, 8, 8, c),
  edge: (s, x, y, c) => s.rect(x - 0.75, y - BAR / 2, 1.5, BAR, c),
  cross: (s, x, y, c) => { s.line([[x - 4, y - 4], [x + 4, y + 4]], c, 2.5); s.line([[x - 4, y + 4], [x + 4, y - 4]], c, 2.5); },
  down: (s, x, y, c) => s.area([[x - 5, y - 4], [x + 5, y - 4], [x, y + 5]], c),
  small_down: (s, x, y, c) => s.area([[x - 3.5, y - 7], [x + 3.5, y - 7], [x, y - 1]], c),
  eject: (s, x, y, c) => { s.area([[x - 5, y + 1], [x + 5, y + 1], [x, y - 6]], c); s.rect(x - 5, y + 3, 10, 2.5, c); },
  barred: (s, x, y, c) => { s.circle(x, y, 5, c, 2); s.line([[x - 3.5, y + 3.5], [x + 3.5, y - 3.5]], c, 2); },
  burst: (s, x, y, c) => {
    s.area([[x, y - 7], [x + 2, y - 2], [x + 7, y], [x + 2, y + 2], [x, y + 7], [x - 2, y + 2], [x - 7, y], [x - 2, y - 2]], c);
  },
  crossed: (s, x, y, c) => { s.frame(x - 5, y - 5, 10, 10, c, 1.5); s.line([[x - 4, y + 4], [x + 4, y - 4]], c, 1.5); },
  square: (s, x, y, c) => s.frame(x - 4, y - 4, 8, 8, c, 1.5),
  warning: (s, x, y, c) => { s.area([[x - 6, y + 5], [x + 6, y + 5], [x, y - 6]], c); s.text("!", x, y + 1.5, "paper", { align: "center", bold: true }); },
  stop: (s, x, y) => s.rect(x - 1, y - BAR / 2, 2.5, BAR, "text"),
  flag: (s, x, y, c) => { s.rect(x - 0.75, y - 8, 1.5, 16, c); s.area([[x, y - 8], [x + 7, y - 5], [x, y - 2]], c); },
  step: (s, x, y, c) => s.line([[x - 2, y - 7], [x + 2, y - 1], [x - 2, y + 1], [x + 2, y + 7]], c, 2),
};
