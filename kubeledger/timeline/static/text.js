// Text and times as people read them, and elements that hold such text and nothing else.

const CONTROL = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/gu;

/** Controls, lone surrogates and marks that turn the text around them, as escapes. */
function visible(text) {
  return String(text).replace(CONTROL, (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`);
}

const STEPS_US = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5,
  1e6, 2e6, 5e6, 1e7, 15e6, 3e7, 6e7, 12e7, 3e8, 6e8, 9e8, 18e8, 36e8, 72e8, 108e8, 216e8, 432e8, 864e8, 1728e8, 6048e8,
];

/** Clock of one node: microseconds after its base to text, in UTC or in the reader's zone. */
class Clock {
  constructor(baseNs) {
    this.baseUs = Number(baseNs / 1000n);
    this.local = false;
  }

  offsetUs(us) {
    return this.local ? -new Date((this.baseUs + us) / 1000).getTimezoneOffset() * 6e7 : 0;
  }

  parts(us) {
    const whole = this.baseUs + Math.round(us) + this.offsetUs(us);
    const micros = ((whole % 1e6) + 1e6) % 1e6;
    return { iso: new Date(Math.floor((whole - micros) / 1000)).toISOString(), micros };
  }

  time(us, stepUs = 1e3) {
    const { iso, micros } = this.parts(us);
    const digits = stepUs >= 1e6 ? 0 : stepUs >= 1e3 ? 3 : 6;
    return iso.slice(11, 19) + (digits ? "." + String(micros).padStart(6, "0").slice(0, digits) : "");
  }

  date(us) { return this.parts(us).iso.slice(0, 10); }

  /** The time, with its day where that is another one than that of `since`. */
  dated(us, since, stepUs = 1e3) {
    const day = this.date(us);
    return (day === this.date(since) ? "" : `${day.slice(5)} `) + this.time(us, stepUs);
  }

  full(us) { return `${this.date(us)} ${this.time(us)}`; }

  zone() { return this.local ? "local time" : "UTC"; }

  /** Instants for an axis, at least `apart` microseconds from one another, on round times. */
  ticks(from, to, apart) {
    const least = (us) => STEPS_US.find((each) => each >= us) || STEPS_US[STEPS_US.length - 1];
    // Fractions of a second make the labels longer.
    const step = least(apart) < 1e6 ? least(apart * 1.3) : least(apart);
    const shift = this.baseUs + this.offsetUs(from);
    const ticks = [];
    for (let at = Math.ceil((from + shift) / step) * step - shift; at <= to; at += step) ticks.push(at);
    return { ticks, step };
  }
}

function duration(us) {
  const seconds = us / 1e6;
  if (seconds < 1e-3) return `${Math.round(us)} µs`;
  if (seconds < 1) return `${Math.round(us / 1e3)} ms`;
  if (seconds < 120) return `${+seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${+(seconds / 3600).toFixed(1)} h`;
  return `${+(seconds / 86400).toFixed(1)} d`;
}

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") Object.entries(value).forEach(([event, act]) => node.addEventListener(event, act));
    else if (value !== null) node.setAttribute(key, value);
  }
  node.append(...children.map((child) => (child instanceof Node ? child : visible(child))));
  return node;
}

/** Change parts of the page's address, which says what is shown; null takes one out. */
function address(parts) {
  const said = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of Object.entries(parts)) {
    if (value === null) said.delete(name);
    else said.set(name, value);
  }
  history.replaceState(null, "", `#${said}`);
}
