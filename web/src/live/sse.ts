// Reads server-sent events from a byte stream: https://html.spec.whatwg.org/#event-stream-interpretation

/** `data` is absent where a frame only says how far the stream has come. */
export type Frame = { event: string; id?: string; data?: string }

/**
 * Yields each frame as its blank line arrives, and `null` for every chunk read, so that the reader can tell a quiet
 * stream with keep-alives from a dead one.
 */
export async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame | null> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  let event = ''
  let id: string | undefined
  let data: string[] = []
  try {
    while (true) {
      const { done, value } = await reader.read()
      // A frame without its blank line is cut off; the resumed stream brings it whole.
      if (done) return
      yield null
      rest += decoder.decode(value, { stream: true })
      // A carriage return at the very end may be half a line end.
      const whole = rest.endsWith('\r') ? rest.slice(0, -1) : rest
      const lines = whole.split(/\r\n|\n|\r/)
      const last = lines.pop() ?? ''
      rest = last + rest.slice(whole.length)
      for (const line of lines) {
        if (line === '') {
          const frame: Frame = { event: event || 'message' }
          if (id !== undefined) frame.id = id
          if (data.length > 0) frame.data = data.join('\n')
          if (frame.id !== undefined || frame.data !== undefined) yield frame
          event = ''
          id = undefined
          data = []
          continue
        }
        const colon = line.indexOf(':')
        const field = colon < 0 ? line : line.slice(0, colon)
        const text = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
        if (field === 'data') data.push(text)
        else if (field === 'event') event = text
        else if (field === 'id') id = text
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}
