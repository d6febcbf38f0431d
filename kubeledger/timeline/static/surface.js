// Where one draws: the same few strokes on a canvas (the screen) and as SVG (paper).

const FONT = '11px system-ui, "DejaVu Sans", sans-serif';
const widths = new Map();
const ruler = document.createElement("canvas").getContext("2d");
ruler.font = FONT;

function textWidth(text) {
  let width = widths.get(text);
  if (width === undefined) {
    width = ruler.measureText(text).width;
    if (widths.size > 20000) widths.clear();
    widths.set(text, width);
  }
  return width;
}

/** The text, cut with an ellipsis so that it is at most `width` pixels wide; "" when not two characters fit. */
function fitted(text, width) {
  if (textWidth(text) <= width) return text;
  let keep = Math.floor((text.length * width) / textWidth(text));
  while (keep > 1 && textWidth(text.slice(0, keep) + "…") > width) keep--;
  return keep > 1 ? text.slice(0, keep) + "…" : "";
}

/** The text with an ellipsis in place of its middle: names that begin alike stay apart. */
function fittedEnds(text, width) {
  if (textWidth(text) <= width) return text;
  let keep = Math.floor((text.length * width) / textWidth(text));
  const cut = () => `${text.slice(0, Math.floor(keep * 0.4))}…${text.slice(text.length - Math.ceil(keep * 0.6))}`;
  while (keep > 2 && textWidth(cut()) > width) keep--;
  return keep > 2 ? cut() : fitted(text, width);
}

class CanvasSurface {
  constructor(canvas, colours) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.colours = colours;
  }

  resize(width, height) {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.width = width;
    this.height = height;
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.font = FONT;
    this.pen.textBaseline = "middle";
    this.pen.clearRect(0, 0, width, height);
  }

  rect(x, y, w, h, colour) {
    this.pen.fillStyle = this.colours[colour];
    this.pen.fillRect(x, y, w, h);
  }

  frame(x, y, w, h, colour, weight = 1) {
    this.pen.strokeStyle = this.colours[colour];
    this.pen.lineWidth = weight;
    this.pen.strokeRect(x + 0.5, y + 0.5, Math.max(w - 1, 0.5), h - 1);
  }

  hatch(x, y, w, h, colour) {
    this.pen.fillStyle = this.hatching(colour);
    this.pen.fillRect(x, y, w, h);
  }

  hatching(colour) {
    const key = this.colours[colour];
    this.patterns ||= new Map();
    if (!this.patterns.has(key)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 6;
      const pen = tile.getContext("2d");
      pen.strokeStyle = key;
      pen.lineWidth = 1;
      pen.beginPath();
      for (const shift of [-6, 0, 6]) { pen.moveTo(shift, 6); pen.lineTo(shift + 6, 0); }
      pen.stroke();
      this.patterns.set(key, this.pen.createPattern(tile, "repeat"));
    }
    return this.patterns.get(key);
  }

  line(points, colour, weight = 1, dash = []) {
    this.trace(points);
    this.pen.strokeStyle = this.colours[colour];
    this.pen.lineWidth = weight;
    this.pen.setLineDash(dash);
    this.pen.stroke();
    this.pen.setLineDash([]);
  }

  area(points, colour) {
    this.trace(points);
    this.pen.closePath();
    this.pen.fillStyle = this.colours[colour];
    this.pen.fill();
  }

  trace(points) {
    this.pen.beginPath();
    points.forEach(([x, y], i) => (i ? this.pen.lineTo(x, y) : this.pen.moveTo(x, y)));
  }

  circle(x, y, radius, colour, weight = 1.5, dash = []) {
    this.pen.beginPath();
    this.pen.arc(x, y, radius, 0, 2 * Math.PI);
    this.pen.strokeStyle = this.colours[colour];
    this.pen.lineWidth = weight;
    this.pen.setLineDash(dash);
    this.pen.stroke();
    this.pen.setLineDash([]);
  }

  bow(x0, y0, x1, y1, bend, colour) {
    this.pen.beginPath();
    this.pen.moveTo(x0, y0);
    this.pen.bezierCurveTo(x0 - bend, y0, x1 - bend, y1, x1, y1);
    this.pen.strokeStyle = this.colours[colour];
    this.pen.lineWidth = 1.5;
    this.pen.stroke();
  }

  text(text, x, y, colour, { align = "left", bold = false, halo = false } = {}) {
    if (!text) return;
    if (bold) this.pen.font = `bold ${FONT}`;
    this.pen.textAlign = align;
    if (halo) {
      this.pen.strokeStyle = this.colours.paper;
      this.pen.lineWidth = 3;
      this.pen.lineJoin = "round";
      this.pen.strokeText(text, x, y);
    }
    this.pen.fillStyle = this.colours[colour];
    this.pen.fillText(text, x, y);
    if (bold) this.pen.font = FONT;
  }

  clipped(x, y, w, h, draw) {
    this.pen.save();
    this.pen.beginPath();
    this.pen.rect(x, y, w, h);
    this.pen.clip();
    draw();
    this.pen.restore();
  }
}

class SvgSurface {
  static ids = 0;

  constructor(width, height, colours) {
    Object.assign(this, { width, height, colours });
    this.root = this.element("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img" }, null);
    this.into = this.root;
    const defs = this.element("defs", {});
    this.defs = defs;
    this.hatches = new Map();
  }

  element(name, attributes, parent = this.into) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (parent) parent.append(node);
    return node;
  }

  rect(x, y, w, h, colour) {
    this.element("rect", { x, y, width: Math.max(w, 0), height: h, fill: this.colours[colour] });
  }

  frame(x, y, w, h, colour, weight = 1) {
    this.element("rect", {
      x: x + 0.5, y: y + 0.5, width: Math.max(w - 1, 0.5), height: h - 1, fill: "none",
      stroke: this.colours[colour], "stroke-width": weight,
    });
  }

  hatch(x, y, w, h, colour) {
    if (!this.hatches.has(colour)) {
      const id = `hatch-${SvgSurface.ids++}`;
      const pattern = this.element("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, this.defs);
      this.element("path", { d: "M0 6L6 0", stroke: this.colours[colour], "stroke-width": 1 }, pattern);
      this.hatches.set(colour, id);
    }
    this.element("rect", { x, y, width: Math.max(w, 0), height: h, fill: `url(#${this.hatches.get(colour)})` });
  }

  line(points, colour, weight = 1, dash = []) {
    this.element("polyline", {
      points: points.map((p) => p.join(",")).join(" "), fill: "none", stroke: this.colours[colour],
      "stroke-width": weight, "stroke-dasharray": dash.join(" ") || "none",
    });
  }

  area(points, colour) {
    this.element("polygon", { points: points.map((p) => p.join(",")).join(" "), fill: this.colours[colour] });
  }

  circle(x, y, radius, colour, weight = 1.5, dash = []) {
    this.element("circle", {
      cx: x, cy: y, r: radius, fill: "none", stroke: this.colours[colour], "stroke-width": weight,
      "stroke-dasharray": dash.join(" ") || "none",
    });
  }

  bow(x0, y0, x1, y1, bend, colour) {
    const d = `M${x0} ${y0}C${x0 - bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`;
    this.element("path", { d, fill: "none", stroke: this.colours[colour], "stroke-width": 1.5 });
  }

  text(text, x, y, colour, { align = "left", bold = false, halo = false } = {}) {
    if (!text) return;
    const anchor = { left: "start", right: "end", center: "middle" }[align];
    const node = this.element("text", {
      x, y, fill: this.colours[colour], "text-anchor": anchor, "dominant-baseline": "central",
      "font-size": 11, "font-weight": bold ? "bold" : "normal", "font-family": 'system-ui, "DejaVu Sans", sans-serif',
    });
    if (halo) for (const [key, value] of Object.entries({ stroke: this.colours.paper, "stroke-width": 3, "paint-order": "stroke" })) node.setAttribute(key, value);
    node.textContent = text;
  }

  clipped(x, y, w, h, draw) {
    const id = `clip-${SvgSurface.ids++}`;
    this.element("rect", { x, y, width: w, height: h }, this.element("clipPath", { id }, this.defs));
    this.within({ "clip-path": `url(#${id})` }, draw);
  }

  /** What is drawn so much lower. */
  shifted(y, draw) { this.within({ transform: `translate(0 ${y})` }, draw); }

  within(attributes, draw) {
    const outer = this.into;
    this.into = this.element("g", attributes);
    draw();
    this.into = outer;
  }
}
