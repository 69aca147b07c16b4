import { Link } from '@tanstack/react-router'
import { Dialog } from '../ui/Dialog'
import { Scroll } from '../ui/Scroll'
import { NAV } from './pages'

type Keys = readonly (readonly [keys: string, words: string])[]

const GROUPS: readonly (readonly [title: string, keys: Keys])[] = [
  ['Everywhere', [['Ctrl K', 'Go to, search, act'], ['/', 'Find in the list'], ['c', 'New task'], ['Alt T', 'Other theme'], ['?', 'This list']]],
  ['Go to', NAV.map(({ keys, label }) => [keys, label] as const)],
  [
    'Page of a sandbox',
    [
      ['m', 'Write to the agent'],
      ['Ctrl Enter', 'Send it'],
      ['i', 'Interrupt (asks)'],
      ['1 … 5', 'Tabs'],
      ['j', 'Next event'],
      ['k', 'Event before'],
      ['o', 'Open the chosen event'],
      ['n', 'Next change of the diff'],
      ['p', 'Change before'],
      ['e', 'Next error'],
      ['Space', 'Play or pause'],
      ['← →', 'One event back, on'],
      ['End', 'Follow the end'],
      ['y', 'Copy the link'],
    ],
  ],
  ['Page of a task', [['1 … 5', 'Tabs']]],
  [
    'Board',
    [
      ['/', 'Find'],
      ['j k', 'Next and previous task'],
      ['o', 'Task beside the board'],
      ['s', 'Start'],
      ['r', 'Retry'],
      ['Delete', 'Cancel'],
      ['+ -', 'More or less urgent'],
    ],
  ],
  ['Graph', [['L', 'As a list, and back']]],
  ['Monitor', [['1 … 7', 'Tabs']]],
  ['Page of a spec', [['a', 'Approve the phase that waits (asks)'], ['r', 'Ask for changes']]],
]

export function KeyList({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <Scroll label="List of keys" className="flex max-h-[60dvh] flex-col gap-3 p-0.5">
        {GROUPS.map(([title, list]) => (
          <section key={title}>
            <h3 className="pb-1 text-xs font-medium text-muted">{title}</h3>
            <dl className="grid grid-cols-[7rem_1fr] gap-x-4 gap-y-1.5">
              {list.map(([keys, words]) => (
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
          </section>
        ))}
      </Scroll>
      <p className="text-xs text-muted">
        Single keys do nothing while you type, and{' '}
        <Link to="/settings/$section" params={{ section: 'appearance' }} onClick={onClose} className="text-accent underline">
          can be switched off
        </Link>
        . ⌘ does what Ctrl does.
      </p>
    </Dialog>
  )
}
