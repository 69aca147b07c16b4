import type { SpecPhase } from '../../../api/types'
import { plain } from '../../../ui/plain'
import { notesOf } from '../output'

/** What is left to ask, left out and taken for granted; nothing where there is none of it. */
export function NotesView({ phase, output }: { phase: SpecPhase; output: unknown }) {
  const { questions, outOfScope, assumptions } = notesOf(phase, output)
  if (questions.length + outOfScope.length + assumptions.length === 0) return null
  return (
    <div className="grid gap-x-6 gap-y-3 border-t border-line px-3 py-2 md:grid-cols-3">
      <List title="Open questions" items={questions} />
      <List title="Out of scope" items={outOfScope} />
      <List title="Assumptions" items={assumptions} />
    </div>
  )
}

function List({ title, items }: { title: string; items: string[] }) {
  return (
    <div className="min-w-0">
      <h3 className="font-medium">
        {title} <span className="text-muted">({items.length})</span>
      </h3>
      {items.length === 0 ? (
        <p className="text-muted">none</p>
      ) : (
        <ul className="list-disc pl-5">
          {items.map((words) => (
            <li key={words} className="untrusted">
              {plain(words)}
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
