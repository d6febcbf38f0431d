// The page: header, headlines, search, keys, pointer, print, and what tests may ask.

class Page {
  constructor(payload, live) {
    this.live = live;
    this.drawings = payload.nodes.map((node) => new Drawing(node));
    this.records = new Records(live);
    this.pane = new Pane(document.getElementById("pane"), (seq) => this.goTo(seq));
    this.views = this.drawings.map((drawing) => new View(drawing));
    this.index = 0;
    this.chart = new Chart(this.view);
    this.chart.afterDraw = () => { this.list(); this.onDraw?.(); };
    this.fillNodes();
    this.fillHeader();
    this.listen();
    this.followHash();
  }

  get view() { return this.views[this.index]; }

  get drawing() { return this.drawings[this.index]; }

  // Header ---------------------------------------------------------------------------------

  fillNodes() {
    const choice = document.getElementById("nodes");
    choice.replaceChildren(...this.drawings.map((drawing, i) => element("option", { value: i }, drawing.node)));
    choice.hidden = this.drawings.length < 2;
    choice.value = String(this.index);
  }

  /** Draw what the ledger holds by now; where one looks, the cursor and the selection stay. */
  replace(payload) {
    const before = new Map(this.views.map((view) => [view.drawing.node, view]));
    const { node } = this.drawing;
    this.drawings = payload.nodes.map((each) => new Drawing(each));
    this.views = this.drawings.map((drawing) => new View(drawing));
    for (const view of this.views) if (before.has(view.drawing.node)) view.continueFrom(before.get(view.drawing.node));
    this.index = Math.max(this.drawings.findIndex((drawing) => drawing.node === node), 0);
    this.fillNodes();
    this.fillHeader();
    this.chart.replace(this.view);
  }

  showNode(index) {
    this.index = index;
    document.getElementById("nodes").value = String(index);
    this.fillHeader();
    this.chart.show(this.view);
  }

  fillHeader() {
    const { drawing, view } = this;
    document.title = visible(`${drawing.node} · kubeledger`);
    document.getElementById("node").textContent = visible(drawing.node);
    const span = `${view.clock.date(0)} ${view.clock.time(0, 1e6)} – ${view.clock.dated(drawing.spanUs, 0, 1e6)} ${view.clock.zone()} · ${duration(drawing.spanUs)}`;
    document.getElementById("meta").textContent = visible(`kubelet ${drawing.versions.join(", ") || "?"} · ${span}${drawing.only ? ` · only ${drawing.only}` : ""}`);
    document.getElementById("verdicts").replaceChildren(drawing.isPart ? "verify, of what is shown: " : "verify: ", ...[...VERDICTS, "inferred"].flatMap((verdict, i) => [
      i ? " · " : "", element("b", { class: drawing.verdicts[verdict] ? verdict : "" }, (drawing.verdicts[verdict] || 0).toLocaleString("en")), ` ${verdict}`,
    ]));
    document.getElementById("zone").textContent = view.clock.zone();
    document.getElementById("headlines").replaceChildren(...(drawing.headlines.length ? [] : [element("span", { class: "hint" }, "Nothing went wrong, as far as the records tell.")]), ...drawing.headlines.map((headline) => element(
      "button", { type: "button", class: `headline severity-${headline.severity}`, on: { click: () => this.openProblem(headline) } },
      element("span", { class: "sign", "aria-hidden": "true" }, SIGNS[headline.kind] || "•"), `${view.clock.dated(headline.at, 0, 1e6)} ${headline.text}`,
    )));
    this.fillLegend();
  }

  fillLegend() {
    const texts = new Map();
    for (const kind of this.drawing.kinds) if (kind.legend && !texts.has(kind.legend)) texts.set(kind.legend, kind);
    document.getElementById("legend").replaceChildren(...[...texts].map(([text, kind]) => element("span", {}, legendSign(kind, this.chart.colours), text)),
      ...VERDICTS.slice(1).filter((verdict) => this.drawing.verdicts[verdict]).map((verdict, i) => element("span", {}, verdictSign(verdict, this.chart.colours), verdict)),
      ...(this.view.overlay ? this.view.overlay.legend(this.chart.colours) : []));
  }

  /** Open what a headline, or the next thing that went wrong, is about, at its moment; not all is drawn. */
  openProblem({ at, seq, item }) {
    const { view } = this;
    const length = view.to - view.from;
    if (at < view.from || at > view.to) view.show(at - length / 2, at + length / 2);
    this.goTo(seq, item);
    view.cursor = at;
    this.problem = { at, seq };
  }

  // Selection ------------------------------------------------------------------------------

  /** Show a record: select its item where one is drawn, and open it in the side pane. */
  async goTo(seq, at) {
    const i = (at === undefined ? this.drawing.bySeq.get(seq) : at) ?? null;
    this.view.selected = i;
    this.problem = null;
    if (i !== null) {
      this.view.cursor = this.drawing.start[i];
      this.chart.reveal(i);
    }
    address({ seq, at: null, node: this.shownNode });
    this.chart.redraw();
    const record = await this.records.get(this.index, this.drawing.node, seq);
    if (record) this.pane.show(record);
    else this.pane.clear(`Record #${seq} is not on this page.`);
    return record !== null;
  }

  /** The node's name in the address; null where there is only one. */
  get shownNode() { return this.drawings.length > 1 ? this.drawing.node : null; }

  /** Put the cursor at a moment, in sight. */
  goToMoment(at) {
    const { view } = this;
    const length = view.to - view.from;
    if (at < view.from || at > view.to) view.show(at - length / 2, at + length / 2);
    view.cursor = at;
    this.chart.redraw();
  }

  followHash() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const node = this.drawings.findIndex((drawing) => drawing.node === wanted.get("node"));
    if (node >= 0 && node !== this.index) this.showNode(node);
    if (/^\d+$/.test(wanted.get("seq") || "") && Number(wanted.get("seq")) !== this.pane.shown) this.goTo(Number(wanted.get("seq")));
    const at = Date.parse(wanted.get("at") || "");
    if (!Number.isNaN(at)) this.goToMoment(at * 1e3 - Number(this.drawing.baseNs) / 1e3);
  }

  /** Open the next (or previous) thing that went wrong: from the one that is open, else the cursor, else the window's edge. */
  step(direction) {
    const { drawing: { problems }, view, problem } = this;
    const edge = direction > 0 ? view.from : view.to;
    const from = view.cursor === null || view.cursorInView() !== view.cursor ? edge : view.cursor;
    const open = problem ? problems.findIndex((each) => each.at === problem.at && each.seq === problem.seq) : -1;
    const ahead = (each) => (each.at - from) * direction >= 0;
    const next = open >= 0 ? problems[open + direction] : direction > 0 ? problems.find(ahead) : problems.findLast(ahead);
    if (next) this.openProblem(next);
  }

  /** Select the next (or previous) record on the row of the selected one. */
  along(direction) {
    const { drawing, view } = this;
    if (view.selected === null) return this.step(direction);
    const row = drawing.row[view.selected];
    for (let i = view.selected + direction; drawing.row[i] === row; i += direction) {
      if (drawing.seq[i] && drawing.isSeen(i) && drawing.seq[i] !== drawing.seq[view.selected]) return this.goTo(drawing.seq[i], i);
    }
    return null;
  }

  /** Fold or unfold the section of the selected record; without one, the folded ones. */
  foldHere() {
    const { drawing, view } = this;
    const ids = view.selected === null ? drawing.sections.filter((section) => section.folded).map((section) => section.id)
      : [drawing.sections[drawing.rows[drawing.row[view.selected]].section].id];
    for (const id of ids) view.fold(id);
  }

  /**
   * What holds `text`, without regard to case: rows by how well their name fits, headlines,
   * items, and at last rows of which only the note (a UID) holds it.
   */
  find(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    const { drawing } = this;
    const fits = [[], [], [], []];
    drawing.rows.forEach((row, r) => {
      const label = row.label.toLowerCase();
      if (row.shape === "ticks" || !`${label} ${row.note.toLowerCase()}`.includes(wanted)) return;
      const i = drawing.first[r] < drawing.first[r + 1] ? drawing.first[r] : null;
      const parts = [label, ...label.split("/")];
      const fit = parts.includes(wanted) ? 0 : parts.some((part) => part.startsWith(wanted)) ? 1 : label.includes(wanted) ? 2 : 3;
      fits[fit].push({ row: row.label, kind: "row", label: row.note, seq: i === null ? 0 : drawing.seq[i], at: i });
    });
    const noted = fits.pop();
    const found = fits.flat();
    for (const headline of drawing.headlines) {
      if (headline.text.toLowerCase().includes(wanted)) found.push({ row: "", kind: "headline", label: headline.text, seq: headline.seq, at: null });
    }
    const strings = new Set(drawing.strings.flatMap((each, s) => (each.toLowerCase().includes(wanted) ? [s] : [])));
    for (let i = 0; i < drawing.label.length && found.length < 200; i++) {
      if (strings.has(drawing.label[i])) found.push({ row: drawing.rows[drawing.row[i]].label, kind: drawing.kindOf(i).name, label: drawing.labelOf(i), seq: drawing.seq[i], at: i });
    }
    return found.concat(noted);
  }

  search(text) {
    const found = this.find(text);
    const list = document.getElementById("found");
    list.hidden = !text.trim();
    list.replaceChildren(...(found.length ? found.slice(0, 30).map((each) => element("li", {}, element(
      "button", { type: "button", on: { click: () => this.openFound(each) } }, [each.row, each.label].filter(Boolean).join(" · ")))) : [element("li", { class: "hint" }, "nothing found")]));
  }

  openFound({ seq, at }) {
    document.getElementById("found").hidden = true;
    if (seq) this.goTo(seq, at === null ? undefined : at);
    else if (at !== null) {
      this.view.selected = at;
      this.chart.reveal(at);
      this.chart.redraw();
    }
    document.getElementById("rows").focus();
  }

  // What is drawn --------------------------------------------------------------------------

  nanoseconds(at) { return at === null ? null : Number(this.drawing.baseNs) + at * 1e3; }

  drawn() {
    const { drawing, view, chart } = this;
    const items = [];
    for (const line of chart.lines || []) {
      if (!("row" in line)) continue;
      drawing.inWindow(line.row, view.from, view.to, (i) => items.push({
        row: drawing.rows[line.row].label, kind: drawing.kindOf(i).name, label: drawing.labelOf(i),
        start_ns: this.nanoseconds(drawing.start[i]), end_ns: this.nanoseconds(drawing.end[i]), seq: drawing.seq[i],
      }));
    }
    return items;
  }

  /** The records in view as a table for those who cannot see the canvas; made when the picture rests. */
  list() {
    clearTimeout(this.listing);
    this.listing = setTimeout(() => {
      const rows = this.drawn().filter((item) => !item.kind.startsWith("tick_success")).slice(0, 500);
      const us = (ns) => (ns - Number(this.drawing.baseNs)) / 1e3;
      document.getElementById("listed").replaceChildren(...rows.map((item) => element("tr", {},
        ...[item.row, item.kind.replaceAll("_", " "), item.label, this.view.clock.full(us(item.start_ns))].map((text) => element("td", {}, text)))));
    }, 250);
  }

  // Input ----------------------------------------------------------------------------------

  listen() {
    const rows = document.getElementById("rows");
    const choice = document.getElementById("nodes");
    choice.addEventListener("change", () => {
      this.showNode(Number(choice.value));
      rows.focus();
    });
    this.chart.scroller.addEventListener("scroll", () => this.chart.redraw());
    new ResizeObserver(() => this.chart.redraw()).observe(this.chart.scroller);
    for (const query of ["(prefers-color-scheme: dark)"]) matchMedia(query).addEventListener("change", () => this.retheme());
    window.addEventListener("hashchange", () => this.followHash());
    window.addEventListener("beforeprint", () => this.print());
    document.addEventListener("keydown", (event) => this.key(event));
    document.getElementById("zone").addEventListener("click", () => this.toggleZone());
    const search = document.getElementById("search");
    search.addEventListener("input", () => this.search(search.value));
    search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") document.querySelector("#found button")?.focus();
      if (event.key === "Enter") document.querySelector("#found button")?.click();
      if (event.key === "Escape") { search.value = ""; this.search(""); rows.focus(); }
    });
    this.pointer(rows);
    this.brush(document.getElementById("overview"));
  }

  retheme() {
    this.chart.retheme();
    this.fillLegend();
    this.chart.redraw();
  }

  toggleZone() {
    for (const view of this.views) view.clock.local = !view.clock.local;
    this.fillHeader();
    this.chart.redraw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const act = {
      ArrowLeft: () => this.view.pan(-0.1), ArrowRight: () => this.view.pan(0.1),
      ArrowUp: () => { this.chart.scroller.scrollTop -= 40; }, ArrowDown: () => { this.chart.scroller.scrollTop += 40; },
      "+": () => this.view.zoom(0.6), "=": () => this.view.zoom(0.6), "-": () => this.view.zoom(1 / 0.6), 0: () => this.view.whole(),
      n: () => this.step(1), p: () => this.step(-1), "/": () => document.getElementById("search").focus(),
      "[": () => this.along(-1), "]": () => this.along(1), f: () => this.foldHere(),
      Escape: () => { this.view.cursor = null; this.view.selected = null; this.problem = null; },
    }[event.key];
    if (!act || (event.target.tagName === "PRE" && event.key.startsWith("Arrow"))) return;
    event.preventDefault();
    act();
    this.chart.redraw();
  }

  pointer(rows) {
    let drag = null;
    const place = (event) => {
      const box = rows.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    rows.addEventListener("pointerdown", (event) => {
      const [x] = place(event);
      if (event.button === 0 && x >= GUTTER) drag = { x, from: this.view.from, to: this.view.to, moved: false };
      rows.setPointerCapture(event.pointerId);
    });
    rows.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (drag) {
        drag.moved ||= Math.abs(x - drag.x) > 3;
        const by = ((x - drag.x) * (drag.to - drag.from)) / (this.chart.scroller.clientWidth - GUTTER);
        if (drag.moved) this.view.show(drag.from - by, drag.to - by);
      }
      this.hover(x, y);
      if (drag?.moved) this.chart.redraw();
    });
    rows.addEventListener("pointerup", (event) => {
      const [x, y] = place(event);
      if (!drag?.moved) this.click(x, y);
      drag = null;
    });
    rows.addEventListener("pointerleave", () => { document.getElementById("tip").hidden = true; });
    rows.addEventListener("dblclick", (event) => {
      const [x, y] = place(event);
      const i = this.chart.itemAt(x, y);
      if (i !== null && this.drawing.kindOf(i).bar) {
        const length = this.drawing.end[i] - this.drawing.start[i];
        this.view.show(this.drawing.start[i] - length * 0.1, this.drawing.end[i] + length * 0.1);
      } else this.view.zoom(0.4, this.chart.timeAt(x));
      this.chart.redraw();
    });
    this.chart.scroller.addEventListener("wheel", (event) => {
      const [x] = place(event);
      if (event.ctrlKey || event.metaKey) this.view.zoom(Math.exp(event.deltaY * 0.002), this.chart.timeAt(Math.max(x, GUTTER)));
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.view.pan((event.deltaX || event.deltaY) / 1000);
      else return;
      event.preventDefault();
      this.chart.redraw();
    }, { passive: false });
  }

  click(x, y) {
    const line = this.chart.lineAt(y);
    if (line && "section" in line) this.view.fold(this.drawing.sections[line.section].id);
    else if (x >= GUTTER) {
      const i = this.chart.itemAt(x, y);
      this.problem = null;
      this.view.cursor = this.chart.timeAt(x);
      if (i !== null && this.drawing.seq[i]) {
        this.goTo(this.drawing.seq[i], i);
        this.view.cursor = this.chart.timeAt(x);
      } else address({ at: new Date((Number(this.drawing.baseNs) / 1e3 + this.view.cursor) / 1e3).toISOString(), seq: null, node: this.shownNode });
    }
    this.chart.redraw();
  }

  hover(x, y) {
    const tip = document.getElementById("tip");
    const i = this.chart.itemAt(x, y);
    document.getElementById("rows").style.cursor = i === null ? "default" : "pointer";
    tip.hidden = i === null;
    if (i === null) return;
    const { drawing, view } = this;
    const lasting = drawing.end[i] > drawing.start[i] && drawing.start[i] >= 0 ? ` · ${duration(drawing.end[i] - drawing.start[i])}` : "";
    const verdict = drawing.verdict[i] ? ` · ${VERDICTS[drawing.verdict[i]]}` : "";
    const count = drawing.counts.has(i) ? ` · ${drawing.counts.get(i).toLocaleString("en")} ticks` : "";
    const since = drawing.start[i] < 0 ? "since before the log" : view.clock.dated(drawing.start[i], 0);
    tip.textContent = visible(`${since}${lasting}${count} · ${drawing.kindOf(i).name.replaceAll("_", " ")} ${drawing.labelOf(i)}${verdict}`);
    const box = document.getElementById("rows").getBoundingClientRect();
    tip.style.left = `${Math.min(box.left + x + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${box.top + y + 16}px`;
  }

  /** The overview: drag to choose a span, click to centre it. */
  brush(overview) {
    let began = null;
    const timeAt = (event) => {
      const box = overview.getBoundingClientRect();
      return ((event.clientX - box.left - GUTTER) * this.drawing.spanUs) / (box.width - GUTTER);
    };
    overview.addEventListener("pointerdown", (event) => {
      began = timeAt(event);
      overview.setPointerCapture(event.pointerId);
    });
    overview.addEventListener("pointermove", (event) => {
      if (began === null) return;
      const now = timeAt(event);
      if (Math.abs(now - began) > this.drawing.spanUs / 200) this.view.show(Math.min(began, now), Math.max(began, now));
      this.chart.redraw();
    });
    overview.addEventListener("pointerup", (event) => {
      const now = timeAt(event);
      if (began !== null && Math.abs(now - began) <= this.drawing.spanUs / 200) {
        const length = this.view.to - this.view.from;
        this.view.show(now - length / 2, now + length / 2);
      }
      began = null;
      this.chart.redraw();
    });
  }

  // Paper ----------------------------------------------------------------------------------

  /** All rows of the window as SVG in the light colours, a page after the other: a canvas would be cropped. */
  print() {
    const { drawing, view } = this;
    document.documentElement.classList.add("on-paper");
    const light = colours();
    document.documentElement.classList.remove("on-paper");
    fitGutter(PAPER.width);
    const pages = paged(view.layout.lines, PAPER.height - PAPER.axis, PAPER.first);
    document.getElementById("paper").replaceChildren(...pages.map(([top, bottom], i) => {
      const surface = new SvgSurface(PAPER.width, bottom - top + PAPER.axis, light);
      const painter = new Painter(surface, drawing, view, view.layout);
      const { ticks, step } = view.clock.ticks(view.from, view.to, 95 / painter.scale);
      surface.text(`${view.clock.date(view.from)} ${view.clock.zone()}`, 8, 10, "faint");
      for (const tick of ticks) surface.text(view.clock.time(tick, step), painter.x(tick) + 3, 10, "faint");
      surface.shifted(PAPER.axis, () => surface.clipped(0, 0, PAPER.width, bottom - top, () => painter.paint(top, bottom)));
      surface.root.setAttribute("aria-label", visible(`Timeline of ${drawing.node}, page ${i + 1} of ${pages.length}`));
      return surface.root;
    }));
    this.chart.redraw();
  }
}

const PAPER = { width: 1100, height: 740, axis: 20, first: 200 };

/** Where the pages break: between rows, and never between a heading or a lane and what belongs to it. */
function paged(lines, height, taken) {
  const pages = [];
  let top = 0;
  let room = height - taken;
  lines.forEach((line, i) => {
    const next = lines[i + 1];
    const kept = next && ("section" in line || next.height === HEIGHTS.ticks) ? next.height : 0;
    if (line.y + line.height + kept - top > room && line.y > top) {
      pages.push([top, line.y]);
      top = line.y;
      room = height;
    }
  });
  const last = lines[lines.length - 1];
  return [...pages, [top, last ? last.y + last.height : 20]];
}

const SIGNS = {
  preempted: "⇣", killed: "✖", refused: "⊘", gc_failed: "▲", unready: "▼", kubelet_restarted: "↻", evicted: "⏏", oom: "✸",
  impossible: "!", crashed: "✖", stuck: "■", waited: "□", not_ended: "□", not_ready: "■", trouble: "□", resize: "☒", shutdown: "⚑", rebooted: "⚑",
  gap: "▨", deleted: "▏", pressure: "◍", kubelet_died: "✖",
};

function smallCanvas(colours, draw) {
  const canvas = element("canvas", { "aria-hidden": "true" });
  const surface = new CanvasSurface(canvas, colours);
  surface.resize(24, 16);
  draw(surface);
  return canvas;
}

function legendSign(kind, of) {
  return smallCanvas(of, (surface) => {
    const painter = Object.assign(Object.create(Painter.prototype), { surface });
    if (kind.glyph) GLYPHS[kind.glyph](surface, 12, 8, kind.bad ? "bad" : "edge");
    else if (kind.tick) for (let x = 3; x < 22; x += 4) surface.rect(x, kind.tick === "good" ? 7 : 3, 1.5, kind.tick === "good" ? 3 : 9, kind.tick === "other" ? "unverifiable" : kind.tick);
    else painter.shape(kind.bar, 1, 2, 22);
  });
}

function verdictSign(verdict, of) {
  return smallCanvas(of, (surface) => {
    const painter = Object.assign(Object.create(Painter.prototype), { surface });
    painter.verdict(VERDICTS.indexOf(verdict), 15, 8);
  });
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[sorted.length >> 1] : 0;
}

function start(payload, live = null) {
  const page = new Page(payload, live);
  page.chart.draw();
  window.kubeledger = {
    ready: true,
    drawn: () => page.drawn(),
    headlines: () => page.drawing.headlines.map((headline) => headline.text),
    problems: () => page.drawing.problems.map(({ at, seq }) => ({ ns: page.nanoseconds(at), seq })),
    cursor_ns: () => page.nanoseconds(page.view.cursor),
    window_ns: () => [page.view.from, page.view.to].map((at) => page.nanoseconds(at)),
    goto: (seq) => page.goTo(Number(seq)),
    find: (text) => page.find(String(text)).map(({ row, kind, label, seq }) => ({ row, kind, label, seq })),
    timing: () => ({ ready_ms: readyMs, frame_median_ms: median(page.chart.frames), frames: page.chart.frames.length }),
  };
  const readyMs = performance.now();
  return page;
}

if (typeof startLive === "function") startLive(start);
else start(JSON.parse(document.getElementById("drawing").textContent));
