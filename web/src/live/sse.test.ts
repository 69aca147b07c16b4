import { describe, expect, test } from 'vitest'
import { frames, type Frame } from './sse'

async function read(chunks: (string | Uint8Array)[]): Promise<Frame[]> {
  const encoder = new TextEncoder()
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(typeof chunk === 'string' ? encoder.encode(chunk) : chunk)
      controller.close()
    },
  })
  const found: Frame[] = []
  for await (const frame of frames(body)) if (frame) found.push(frame)
  return found
}

const data = (found: Frame[]) => found.map((frame) => frame.data)

describe('server-sent events', () => {
  test('are the same however the bytes are cut', async () => {
    const text = ': hello\n\nid: 1\r\nevent: x\r\ndata: {"a":"é"}\r\n\r\ndata:two\ndata: lines\n\n'
    const bytes = new TextEncoder().encode(text)
    const expected = [
      { event: 'x', id: '1', data: '{"a":"é"}' },
      { event: 'message', data: 'two\nlines' },
    ]
    for (let size = 1; size <= bytes.length; size++) {
      const chunks: Uint8Array[] = []
      for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.slice(at, at + size))
      expect(await read(chunks), `in pieces of ${size}`).toEqual(expected)
    }
  })

  test('without their blank line are dropped, since the resumed stream repeats them', async () => {
    expect(data(await read(['data: whole\n\ndata: cut']))).toEqual(['whole'])
    expect(data(await read(['data: whole\n\ndata: cut\n']))).toEqual(['whole'])
  })

  test('of other fields and comments alone are none', async () => {
    expect(await read([':\n\n', 'event: x\n\n', 'retry: 10\n\n', 'nonsense\n\n'])).toEqual([])
  })

  test('may say no more than how far the stream has come', async () => {
    expect(await read([': ping\nid: 5\n\n', 'data: a\n\n'])).toEqual([
      { event: 'message', id: '5' },
      { event: 'message', data: 'a' },
    ])
  })
})
