// What went wrong with a request, in words for people and a code for programs.

export class Problem extends Error {
  /** 0 when no answer came. */
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, detail: string) {
    super(detail)
    this.name = 'Problem'
    this.status = status
    this.code = code
  }

  /** Whether the same request may succeed later without anybody changing anything. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500
  }
}

export function unreachable(): Problem {
  return new Problem(0, 'unreachable', 'The server did not answer. It may be down, or the network is.')
}

/** Reads the body of a refusal; one that is not a problem document, such as a proxy's page, still gets words. */
export function problemOf(status: number, body: unknown): Problem {
  const { code, detail } = typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {}
  return new Problem(
    status,
    typeof code === 'string' ? code : `http_${status}`,
    typeof detail === 'string' && detail !== '' ? detail : `The server answered with status ${status}.`,
  )
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  // This is how `fetch` says that there was no answer.
  if (error instanceof TypeError) return unreachable()
  return new Problem(0, 'unexpected', error instanceof Error ? error.message : String(error))
}
