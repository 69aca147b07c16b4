// Text from outside, made fit to be shown as text: what would be invisible, or would move what stands beside it, is
// shown as a mark, so that nobody reads one thing where another is written.

// eslint-disable-next-line no-control-regex -- taking them out is the point
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\^_])/g
// eslint-disable-next-line no-control-regex -- finding them is the point
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g
/** Marks that reorder, join or take no room; variation selectors but those of emoji; tags; fillers that look like a blank. */
const INVISIBLE =
  // oxlint-disable-next-line no-misleading-character-class -- each stands for itself
  /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu
/** Joins emoji into one; between them it hides nothing. */
// oxlint-disable-next-line no-misleading-character-class -- one of them at a time
const EMOJI_JOIN = /(\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]?)\u200d(?=\p{Extended_Pictographic})/gu
const KEPT_JOIN = '\ue000'

/** Everything as a mark that cannot be seen, but for line breaks and tabs. */
export function visible(text: string): string {
  return text
    .replaceAll(KEPT_JOIN, '⟨U+E000⟩')
    .replace(EMOJI_JOIN, `$1${KEPT_JOIN}`)
    .replace(CONTROLS, picture)
    .replace(INVISIBLE, codePoint)
    .replaceAll(KEPT_JOIN, '\u200d')
}

/** A name of a file, a branch or a person: line breaks and tabs have no place in it either. */
export function nameOf(text: string): string {
  return visible(text).replaceAll('\n', '␊').replaceAll('\t', '␉')
}

/** Without terminal escapes, and with marks for what cannot be seen. */
export function plain(text: string): string {
  return visible(text.replace(/\r\n?/g, '\n').replace(ESCAPES, ''))
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

function picture(sign: string): string {
  const code = sign.charCodeAt(0)
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  return code === 0x7f ? '␡' : codePoint(sign)
}

function codePoint(sign: string): string {
  return `⟨U+${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`
}
