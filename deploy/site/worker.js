/* A worker for pages that are opened from disk, where browsers start none: the script runs in a hidden frame.
   The search of the site asks for one; where pages are served, the browser's own is used. */
"use strict"
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = this.onerror = null
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      const inside = frame.contentWindow
      this.send = inside.postMessage.bind(inside)
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      }
      const base = new URL(url, location)
      const load = (address) =>
        new Promise((loaded, failed) => {
          const script = inside.document.createElement("script")
          script.src = new URL(address, base)
          script.onload = () => loaded()
          script.onerror = () => failed(new Error(`${script.src} cannot be loaded`))
          inside.document.body.appendChild(script)
        })
      inside.importScripts = (...addresses) =>
        addresses.reduce((before, address) => before.then(() => load(address)), Promise.resolve())
      this.ready = load(base)
      this.frame = frame
    }
    postMessage(data) {
      this.ready.then(() => this.send(data, "*"))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
