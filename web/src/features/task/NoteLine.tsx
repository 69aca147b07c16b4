import type { Note } from './note'

const TONES: Record<Note['tone'], string> = {
  muted: 'border-line-strong text-muted',
  run: 'border-run text-run',
  warn: 'border-warn text-warn',
  bad: 'border-bad text-bad',
  ok: 'border-ok text-ok',
}

/** Why it stands where it stands, or what it does. */
export function NoteLine({ note }: { note: Note }) {
  return (
    <p title={note.words} className={`untrusted line-clamp-2 border-l-2 pl-1.5 text-xs ${TONES[note.tone]}`}>
      {note.words}
    </p>
  )
}
