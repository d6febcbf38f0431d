// The table: heads that sort, and of the rows those that are in view.

const ROW_PX = 28;
const BEYOND = 6;
const PRINTED = 500;

class Table {
  constructor(fleet, asked) {
    Object.assign(this, { fleet, asked, rows: fleet.rows, drawn: new Map(), selected: null, frames: [] });
    this.scroll = document.getElementById("scroll");
    this.grid = document.getElementById("table");
    this.body = document.getElementById("rows");
    this.heads = document.getElementById("heads");
    const space = () => element("tr", { class: "space", "aria-hidden": "true" }, element("td", { colspan: fleet.seen.length + 7 }));
    [this.above, this.below] = [space(), space()];
    this.body.append(this.above, this.below);
    this.scroll.addEventListener("scroll", () => this.redraw());
    new ResizeObserver(() => this.redraw()).observe(this.scroll);
    this.body.addEventListener("click", (event) => {
      const tr = event.target.closest("tr[data-row]");
      if (tr && !event.target.closest("a")) this.select(this.rows.findIndex((row) => row.i === Number(tr.dataset.row)));
    });
  }

  fillHeads(by, down) {
    const head = (id, title, hint, number) => element(
      "th", { scope: "col", class: number ? "number" : null, "aria-sort": by === id ? (down ? "descending" : "ascending") : null },
      element("button", { type: "button", title: visible(hint), "data-by": id, on: { click: () => this.asked(id) } }, title, by === id ? (down ? " ▼" : " ▲") : ""),
    );
    this.heads.replaceChildren(element(
      "tr", {}, head("node", "node", "By name"), head("pool", "pool", "By pool"), head("version", "kubelet", "By the version of the last kubelet"),
      head("span", "records", "By how long the records last", true), head("problems", "problems", "By problems an hour, an hour at least"),
      head("out", "stands out", "By how far the farthest count stands out"), ...this.fleet.seen.map((place) => this.fleet.columns[place]).map((column) => head(column.id, column.title, column.doc, true)),
      head("worst", "worst", "Worst first"),
    ));
  }

  show(rows) {
    this.rows = rows;
    this.scroll.scrollTop = 0;
    this.selected = null;
    this.grid.removeAttribute("aria-activedescendant");
    this.grid.setAttribute("aria-rowcount", String(rows.length + 1));
    this.clear();
    this.draw();
  }

  clear() {
    for (const tr of this.drawn.values()) tr.remove();
    this.drawn.clear();
  }

  redraw() {
    if (this.asleep !== undefined) return;
    this.asleep = requestAnimationFrame(() => {
      this.asleep = undefined;
      const began = performance.now();
      this.draw();
      this.frames.push(performance.now() - began);
    });
  }

  /** Draw the rows in view, and some beyond; those that were there stay. */
  draw(from = Math.floor(this.scroll.scrollTop / ROW_PX) - BEYOND, to = from + Math.ceil(this.scroll.clientHeight / ROW_PX) + 2 * BEYOND) {
    const [first, last] = [Math.max(Math.min(from, this.rows.length - 1), 0), Math.min(to, this.rows.length)];
    for (const [at, tr] of this.drawn) {
      if (at >= first && at < last) continue;
      tr.remove();
      this.drawn.delete(at);
    }
    let next = this.below;
    for (let at = last - 1; at >= first; at--) {
      let tr = this.drawn.get(at);
      if (!tr) {
        tr = this.row(this.rows[at], at);
        this.drawn.set(at, tr);
        this.body.insertBefore(tr, next);
      }
      next = tr;
    }
    this.above.style.height = `${first * ROW_PX}px`;
    this.below.style.height = `${(this.rows.length - last) * ROW_PX}px`;
  }

  row(row, at) {
    const cell = (text, attributes = {}) => element("td", attributes, text);
    const named = row.link ? element("a", { href: row.link }, row.node) : row.node;
    const tr = element(
      "tr", { id: `row-${row.i}`, "data-row": row.i, "aria-rowindex": at + 2, "aria-selected": String(at === this.selected) },
      cell(named, { title: visible(row.node) }), cell(row.pool, { class: row.pool === NO_POOL ? "place zero" : "place" }), cell(row.versions.join(", ") || "?", { class: "versions" }),
      cell(row.first === null ? "none" : duration(row.span * 3600e6), { class: "number" }), element("td", {}, hoursDrawing(row, ...this.axis(row), 144, 22, this.fleet.peak)),
      cell(row.out.length ? row.out.slice(0, 2).map(([place]) => plainTitle(this.fleet.columns[place])).join(", ") + (row.out.length > 2 ? ` +${row.out.length - 2}` : "") : "", { class: "out" }),
      ...this.fleet.seen.map((place) => this.count(row, row.counts[place], place)), cell(`${row.i + 1}.`, { class: "number zero" }),
    );
    return tr;
  }

  count(row, count, place) {
    const out = row.outAt.get(place);
    const kind = !count ? "zero" : this.fleet.columns[place].id === "impossible" ? "impossible" : out ? "out" : "plain";
    return element("td", { class: `number ${kind}`, title: out ? expectation(out) : null }, `${out ? "▲ " : ""}${count.toLocaleString("en")}`);
  }

  axis(row) {
    return this.own ? [row.first ?? 0, row.last ?? 0] : [this.fleet.from, this.fleet.to];
  }

  select(at) {
    if (at < 0 || at >= this.rows.length) return;
    this.drawn.get(this.selected)?.setAttribute("aria-selected", "false");
    this.selected = at;
    const top = at * ROW_PX;
    const room = this.scroll.clientHeight - this.heads.offsetHeight - ROW_PX;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    else if (top > this.scroll.scrollTop + room) this.scroll.scrollTop = top - room;
    this.draw();
    this.drawn.get(at)?.setAttribute("aria-selected", "true");
    this.grid.setAttribute("aria-activedescendant", `row-${this.rows[at].i}`);
    this.onSelect?.(this.rows[at]);
  }

  /** Rows by the key; true where it is one of the table's. */
  key(event) {
    const page = Math.max(Math.floor(this.scroll.clientHeight / ROW_PX) - 2, 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      const from = this.selected ?? (steps[event.key] > 0 ? -1 : this.rows.length);
      this.select(Math.min(Math.max(from + steps[event.key], 0), this.rows.length - 1));
      return true;
    }
    if (event.key !== "Enter" || this.selected === null) return false;
    this.drawn.get(this.selected)?.querySelector("a")?.click();
    return true;
  }

  print() {
    this.clear();
    this.draw(0, PRINTED);
    this.above.style.height = this.below.style.height = "0";
  }
}

const plainTitle = (column) => column.title.replaceAll("- ", "");
const expectation = ({ expected, score }) => `${expected.toLocaleString("en", { maximumFractionDigits: 1 })} expected by the median of its pool; ${score.toLocaleString("en")} spreads above`;
