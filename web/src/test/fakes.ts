// A server for tests: streams that the test feeds and cuts by hand, and events to put into them.

import { vi } from 'vitest'
import type { LiveEvent, StoredEvent } from '../api/types'

export function liveEvent(seq: number, change: Partial<LiveEvent> = {}): LiveEvent {
  return {
    position: seq * 10,
    event_type: 'SANDBOX_agent.message',
    entity_type: 'sandbox',
    entity_id: 'sbx-1',
    payload: { content: `event ${seq}`, source: 'agent', original_event_type: 'agent.message' },
    seq,
    timestamp: '2026-11-16T09:00:00Z',
    ...change,
  }
}

export function storedEvent(seq: number, change: Partial<StoredEvent> = {}): StoredEvent {
  return {
    id: `evt-${seq * 10}`,
    sandbox_id: 'sbx-1',
    seq,
    event_type: 'agent.message',
    event_data: { content: `event ${seq}` },
    source: 'agent',
    created_at: '2026-11-16T09:00:00Z',
    ...change,
  }
}

/** Newest first, as the server answers. */
export function storedEvents(first: number, last: number): StoredEvent[] {
  return Array.from({ length: last - first + 1 }, (_, i) => storedEvent(last - i))
}

export function frame(event: LiveEvent): string {
  return `id: ${event.position}\ndata: ${JSON.stringify(event)}\n\n`
}

type Connection = {
  since: number | undefined
  send: (text: string) => Promise<void>
  cut: () => Promise<void>
  isGivenUp: () => boolean
}

/** Accepts connections, or refuses them with what `refusal` says. */
export class FakeStream {
  readonly connections: Connection[] = []
  attempts = 0
  refusal: (() => Error) | undefined

  open = async (since: number | undefined, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> => {
    this.attempts += 1
    if (this.refusal) throw this.refusal()
    let controller: ReadableStreamDefaultController<Uint8Array> | undefined
    const body = new ReadableStream<Uint8Array>({
      start(given) {
        controller = given
        signal.addEventListener('abort', () => {
          try {
            given.error(signal.reason)
          } catch {
            // It had ended already.
          }
        })
      },
    })
    const encoder = new TextEncoder()
    this.connections.push({
      since,
      send: async (text) => {
        controller?.enqueue(encoder.encode(text))
        await settle()
      },
      cut: async () => {
        controller?.close()
        await settle()
      },
      isGivenUp: () => signal.aborted,
    })
    return body
  }

  get last(): Connection {
    const connection = this.connections.at(-1)
    if (!connection) throw new Error('nobody has connected')
    return connection
  }
}

/** Lets everything run that waits for no timer. Needs fake timers. */
export async function settle() {
  await vi.advanceTimersByTimeAsync(0)
}
