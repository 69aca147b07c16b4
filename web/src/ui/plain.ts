// Text from outside, made fit to be shown as text.

// eslint-disable-next-line no-control-regex -- taking them out is the point
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\^_])/g
// eslint-disable-next-line no-control-regex -- taking them out is the point
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g

/** Without terminal escapes, control characters and marks that reorder what follows. */
export function plain(text: string): string {
  return text.replace(/\r\n?/g, '\n').replace(ESCAPES, '').replace(CONTROLS, '')
}

/** One line, at most so many characters. */
export function oneLine(text: string, max: number): string {
  const line = plain(text).replace(/\s+/g, ' ').trim()
  return line.length > max ? `${line.slice(0, max - 1)}…` : line
}

/** Ids made in one moment differ at their end, so a short one keeps kind and end: `sbx-…9f2a41c0`. */
export function shortId(id: string): string {
  if (id.length <= 16) return id
  const dash = id.indexOf('-')
  const kind = dash > 0 && dash <= 5 ? id.slice(0, dash + 1) : ''
  return `${kind}…${id.slice(-8)}`
}
