import { Dialog } from '../ui/Dialog'

const KEYS = [
  ['g d', 'Home'],
  ['g s', 'Specs'],
  ['g x', 'Sandboxes'],
  ['g t', 'Tasks'],
  ['g p', 'Projects'],
  ['c', 'New task'],
  ['a', 'Spec: approve the phase that waits'],
  ['r', 'Spec: ask for changes'],
  ['Alt T', 'Other theme'],
  ['?', 'This list'],
] as const

export function KeyList({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1.5">
        {KEYS.map(([keys, words]) => (
          <div key={keys} className="contents">
            <dt>
              {keys.split(' ').map((key) => (
                <kbd key={key} className="mr-1 rounded border border-line-strong bg-sunken px-1.5 font-mono text-xs">
                  {key}
                </kbd>
              ))}
            </dt>
            <dd className="text-muted">{words}</dd>
          </div>
        ))}
      </dl>
      <p className="text-xs text-muted">Single keys do nothing while you type.</p>
    </Dialog>
  )
}
