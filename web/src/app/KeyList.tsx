import { Dialog } from '../ui/Dialog'

const KEYS = [
  ['g d', 'Home'],
  ['g x', 'Sandboxes'],
  ['g b', 'Board'],
  ['g g', 'Graph'],
  ['g t', 'Tasks as a list'],
  ['g p', 'Projects'],
  ['c', 'New task'],
  ['Alt T', 'Other theme'],
  ['/', 'Find on the board'],
  ['j k', 'Next and previous task on the board'],
  ['o', 'Board: task beside the board'],
  ['s', 'Board: start'],
  ['r', 'Board: retry'],
  ['Delete', 'Board: cancel'],
  ['+ -', 'Board: more or less urgent'],
  ['L', 'Graph: as a list, and back'],
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
