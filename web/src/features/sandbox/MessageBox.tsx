import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState, type FormEvent } from 'react'
import type { Message, MessageState, MessageType } from '../../api/types'
import { useSession } from '../../api/session'
import { usePageActions } from '../../app/actions'
import { useKeys } from '../../app/keys'
import { Button } from '../../ui/Button'
import { ErrorPanel } from '../../ui/panels'
import { oneLine } from '../../ui/plain'
import { State } from '../../ui/State'
import { Ago } from '../../ui/Time'
import { messageList, messageSend } from './queries'

const TYPES: Record<MessageType, string> = {
  user_message: 'Message',
  interrupt: 'Interrupt',
  guardian_nudge: 'Nudge',
  system: 'System',
  agent_message: 'Another agent',
}
/** What a person says; a nudge is the Guardian's own. */
const OFFERED: MessageType[] = ['user_message', 'system', 'interrupt']
const CONTENT_CHARS_MAX = 65_536
const PREVIEW_CHARS = 200
const SHOWN = 3

export function MessageBox({ sandboxId, isOver }: { sandboxId: string; isOver: boolean }) {
  const role = useSession()?.role
  const [content, setContent] = useState('')
  const [type, setType] = useState<MessageType>('user_message')
  const queries = useQueryClient()
  const send = useMutation({
    mutationFn: () => messageSend(sandboxId, content, type),
    onSuccess: () => {
      setContent('')
      setType('user_message')
    },
    // After a lost answer too: the list then shows whether the message arrived.
    onSettled: () => queries.invalidateQueries({ queryKey: messageList(sandboxId).queryKey }),
  })
  const box = useRef<HTMLTextAreaElement>(null)
  const focus = () => box.current?.focus()
  // A link may lead right to the box.
  useEffect(() => {
    if (location.hash === '#message') box.current?.focus()
  }, [])
  useKeys({ m: focus })
  usePageActions(role === 'viewer' || isOver ? [] : [{ label: 'Write to the agent', keys: 'm', run: focus }])
  const canSend = content.trim() !== '' && !send.isPending

  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (canSend) send.mutate()
  }

  return (
    <section aria-label="Messages" className="shrink-0 border-t border-line bg-surface">
      <Sent sandboxId={sandboxId} />
      {send.error && <ErrorPanel error={send.error} />}
      {role === 'viewer' || isOver ? (
        <p className="px-4 py-2 text-muted">
          {isOver ? 'The sandbox has ended, so nobody would hear a message.' : 'Your token may look, but not speak.'}
        </p>
      ) : (
        <form method="post" onSubmit={submit} className="flex flex-wrap items-end gap-2 p-2 md:px-4">
          <label className="sr-only" htmlFor="message">
            To the agent
          </label>
          <textarea
            ref={box}
            id="message"
            rows={2}
            value={content}
            maxLength={CONTENT_CHARS_MAX}
            placeholder="To the agent… (Ctrl+Enter sends)"
            onChange={(event) => setContent(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event)
            }}
            className="min-h-13 w-full resize-y md:w-auto md:flex-1 rounded border border-line-strong bg-sunken px-2 py-1 placeholder:text-subtle"
          />
          <label className="flex items-center gap-2 text-muted">
            Type
            <select
              value={type}
              onChange={(event) => setType(OFFERED.find((word) => word === event.target.value) ?? 'user_message')}
              className="h-7 rounded border border-line-strong bg-surface px-1 text-fg"
            >
              {OFFERED.map((word) => (
                <option key={word} value={word}>
                  {TYPES[word]}
                </option>
              ))}
            </select>
          </label>
          <Button look="main" type="submit" disabled={!canSend}>
            {send.isPending ? 'Sending…' : 'Send'}
          </Button>
        </form>
      )}
    </section>
  )
}

function Sent({ sandboxId }: { sandboxId: string }) {
  const list = useQuery(messageList(sandboxId))
  const [isAll, setIsAll] = useState(false)
  if (list.error) return <ErrorPanel error={list.error} onRetry={() => void list.refetch()} />
  const messages = list.data ?? []
  if (messages.length === 0) return null
  return (
    <div className="max-h-40 overflow-y-auto border-b border-line py-1">
      <ol reversed aria-label="Sent messages, newest first">
        {(isAll ? messages : messages.slice(0, SHOWN)).map((message) => (
          <Line key={message.id} message={message} />
        ))}
      </ol>
      {messages.length > SHOWN && (
        <button
          type="button"
          aria-expanded={isAll}
          onClick={() => setIsAll(!isAll)}
          className="min-h-6 cursor-pointer px-4 text-xs text-subtle hover:text-fg hover:underline"
        >
          {isAll ? 'Show fewer' : `Show ${messages.length - SHOWN} more`}
        </button>
      )}
    </div>
  )
}

function Line({ message }: { message: Message }) {
  return (
    <li className="flex min-h-7 flex-wrap items-center gap-x-2 px-4">
      <State state={message.state} />
      <span className="text-xs text-muted">
        <Ago at={stateAt(message)} />
      </span>
      <span className="text-xs text-subtle">
        {TYPES[message.message_type]} of {oneLine(message.sender, 60)}
      </span>
      <span className="untrusted min-w-0 flex-1 basis-48">{oneLine(message.content, PREVIEW_CHARS)}</span>
    </li>
  )
}

/** When it came into the state it is in. */
function stateAt(message: Message): string {
  const times: Record<MessageState, string | null | undefined> = {
    queued: message.timestamp,
    delivered: message.delivered_at,
    injected: message.injected_at,
    acknowledged: message.acknowledged_at,
    expired: message.expired_at,
  }
  return times[message.state] ?? message.timestamp
}
