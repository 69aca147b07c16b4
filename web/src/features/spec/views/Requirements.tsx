import { nameOf, plain } from '../../../ui/plain'
import { Quiet } from '../../../ui/Section'
import { requirementsOf, type Requirement } from '../output'

export function Requirements({ output }: { output: unknown }) {
  const all = requirementsOf(output)
  if (all.length === 0) return <Quiet>It names no requirement.</Quiet>
  return (
    <ul>
      {all.map((requirement, n) => (
        // Ids may repeat in what failed.
        <li key={`${requirement.id} ${n}`} className="flex flex-col gap-1 border-b border-line px-3 py-2 last:border-b-0">
          <Row requirement={requirement} />
        </li>
      ))}
    </ul>
  )
}

function Row({ requirement: { id, title, kind, priority, text, criteria, stories, dependencies } }: { requirement: Requirement }) {
  const links = [
    stories.length > 0 && `from ${stories.map(nameOf).join(', ')}`,
    dependencies.length > 0 && `needs ${dependencies.map(nameOf).join(', ')}`,
  ].filter((words) => words !== false)
  return (
    <>
      <p className="flex flex-wrap items-baseline gap-x-3">
        <span className="untrusted font-mono text-xs text-muted">{nameOf(id)}</span>
        <span className="untrusted font-medium">{plain(title)}</span>
        <span className="untrusted text-xs text-muted">{[kind, priority].filter(Boolean).map(nameOf).join(' · ')}</span>
      </p>
      <p className="untrusted">{plain(text)}</p>
      {criteria.length > 0 && (
        <details>
          <summary className="cursor-pointer text-xs leading-6 text-muted">
            {criteria.length} {criteria.length === 1 ? 'criterion' : 'criteria'}
          </summary>
          <ul className="list-disc pl-5">
            {criteria.map((words) => (
              <li key={words} className="untrusted">
                {plain(words)}
              </li>
            ))}
          </ul>
        </details>
      )}
      {links.length > 0 && <p className="untrusted text-xs text-muted">{links.join(' · ')}</p>}
    </>
  )
}
