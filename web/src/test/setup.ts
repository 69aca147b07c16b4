import { cleanup, configure } from '@testing-library/react'
import { afterEach } from 'vitest'

// jsdom lays nothing out, so nothing ever changes its size.
globalThis.ResizeObserver = class {
  observe() {}
  unobserve() {}
  disconnect() {}
}

globalThis.matchMedia = (media) =>
  Object.assign(new EventTarget(), { media, matches: true, onchange: null, addListener() {}, removeListener() {} })

// Nothing has a size either, and a list that shows what is in sight would show nothing: rows are small, boxes are not.
const BOX_PX = 600
const ROW_PX = 30
const size = { configurable: true, get: sizeOf }
Object.defineProperties(Element.prototype, { clientHeight: size, clientWidth: size })
Object.defineProperties(HTMLElement.prototype, { offsetHeight: size, offsetWidth: size })

function sizeOf(this: Element): number {
  return this.hasAttribute('data-index') ? ROW_PX : BOX_PX
}

HTMLElement.prototype.scrollTo = function scrollTo(this: HTMLElement, options?: ScrollToOptions | number) {
  if (typeof options === 'object' && options.top !== undefined) this.scrollTop = options.top
}

// And no dialog opens.
HTMLDialogElement.prototype.showModal = function showModal(this: HTMLDialogElement) {
  this.open = true
}
HTMLDialogElement.prototype.close = function close(this: HTMLDialogElement) {
  this.open = false
}

window.scrollTo = () => undefined

// A busy machine is slow, not wrong.
configure({ asyncUtilTimeout: 5_000 })

afterEach(cleanup)
