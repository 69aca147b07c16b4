// The conversation of an agent as a file.

import { api, ask } from '../../api/client'
import { Problem } from '../../api/problem'

/** Hands the newest transcript to the browser to be saved. */
export async function transcriptDownload(id: string) {
  let transcript
  try {
    transcript = await ask(api.GET('/api/v1/sandboxes/{id}/transcript', { params: { path: { id } } }))
  } catch (error) {
    const isNone = error instanceof Problem && error.status === 404
    throw isNone ? new Problem(404, error.code, 'This sandbox has no transcript: its agent has said nothing yet, or keeps none.') : error
  }
  save(`${id}.jsonl`, bytesOf(transcript.transcript_b64))
}

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0))
}

function save(name: string, bytes: Uint8Array<ArrayBuffer>) {
  const url = URL.createObjectURL(new Blob([bytes], { type: 'application/jsonl' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
