// The side pane: one record with its verdict, why, cause, effects and evidence.

/** Records of the page: blocks of gzip in the file, or asked of the server; a block is opened once. */
class Records {
  constructor(live) {
    this.live = live;
    this.opened = new Map();
    this.blocks = [...document.querySelectorAll("script.records")].map((script) => ({
      script, node: Number(script.dataset.node), first: Number(script.dataset.first), last: Number(script.dataset.last),
    }));
  }

  async get(node, name, seq) {
    const records = this.live ? await this.live.records(name, seq) : await this.open(this.blockOf(node, seq));
    return records.find((record) => record.seq === seq) || null;
  }

  blockOf(node, seq) {
    return this.blocks.find((block) => block.node === node && block.first <= seq && seq <= block.last);
  }

  async open(block) {
    if (!block) return [];
    if (!this.opened.has(block)) this.opened.set(block, unpack(block.script.textContent));
    return this.opened.get(block);
  }
}

async function unpack(base64) {
  const bytes = Uint8Array.from(atob(base64.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

class Pane {
  constructor(root, goTo) {
    Object.assign(this, { root, goTo, shown: null });
  }

  clear(text) {
    this.shown = null;
    this.root.replaceChildren(element("p", { class: "hint" }, text));
  }

  show(record) {
    this.shown = record.seq;
    const facts = [
      ["when", record.time], ["about", record.about], ["role", record.role],
      ["verdict", record.verdict && element("strong", { class: record.inferred ? "" : record.verdict }, record.inferred ? `${record.verdict} (inferred, counted apart)` : record.verdict)],
      ["summary", record.summary], ["why", record.why], ["rule", record.rule],
    ].filter(([, value]) => value);
    this.root.replaceChildren(
      element("h2", {}, `#${record.seq} ${record.kind}`),
      element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
      ...this.links("Cause", record.cause), ...this.links("Effects", record.effects), ...this.evidence(record.evidence),
    );
    this.root.scrollTop = 0;
    this.onShow?.(record);
  }

  links(title, others) {
    if (!others || !others.length) return [];
    return [element("h3", {}, title), element("ul", {}, ...others.map(({ seq, text }) => element("li", {},
      element("a", { href: `#seq=${seq}`, on: { click: (event) => { event.preventDefault(); this.goTo(seq); } } }, `#${seq} ${text}`))))];
  }

  evidence(pieces) {
    if (!pieces || !pieces.length) return [];
    return [element("h3", {}, "Evidence"), ...pieces.flatMap(({ file, line, text }) => [
      element("p", { class: "place" }, line ? `${file}:${line}` : String(file)),
      ...(text ? [element("pre", { tabindex: "0" }, text)] : []),
    ])];
  }
}
