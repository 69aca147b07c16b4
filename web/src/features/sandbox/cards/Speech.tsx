import { useQuery } from '@tanstack/react-query'
import { Bot, Brain, CirclePause, MessageSquareText, UserRound } from 'lucide-react'
import { useContext } from 'react'
import { number, text } from '../../../live/fields'
import type { LogEvent } from '../../../live/log'
import type { MessageRow, Row } from '../../../live/rows'
import { money, tokens } from '../../../ui/figures'
import { Markdown } from '../../../ui/Markdown'
import { nameOf, oneLine } from '../../../ui/plain'
import { duration } from '../../../ui/time'
import { messageList } from '../queries'
import { Card, CardsContext, Title, useOpen } from './Card'

const LINES_SHOWN = 40
const CHARS_SHOWN = 4_000
const PREVIEW_CHARS = 140
const REASON_CHARS = 500

/** What the agent says, and what saying it cost. */
export function MessageCard({ row }: { row: MessageRow }) {
  return (
    <Card
      row={row}
      icon={Bot}
      tone="speech"
      title={<Title>Agent</Title>}
      meta={
        <>
          <Turn event={row.event} />
          {row.call && <CallCost call={row.call} />}
        </>
      }
      events={[row.call, row.event]}
    >
      <Words row={row} content={text(row.event.data, 'content') ?? ''} />
    </Card>
  )
}

export function CallCost({ call }: { call: LogEvent }) {
  const [input, output] = [number(call.data, 'input_tokens'), number(call.data, 'output_tokens')]
  const cost = number(call.data, 'cost_usd')
  const took = number(call.data, 'duration_ms')
  const read = (input ?? 0) + (number(call.data, 'cache_read_tokens') ?? 0) + (number(call.data, 'cache_write_tokens') ?? 0)
  return (
    <span title={`${nameOf(text(call.data, 'model') ?? 'model')}: ${read} tokens read, ${output ?? 0} written`}>
      {tokens(read)} in · {tokens(output ?? 0)} out
      {cost !== undefined && cost > 0 && ` · ${money(cost)}`}
      {took !== undefined && ` · ${duration(took)}`}
    </span>
  )
}

export function ThinkingCard({ row, event }: { row: Row; event: LogEvent }) {
  const [isOpen, onToggle] = useOpen(row.key)
  const content = text(event.data, 'content') ?? ''
  return (
    <Card
      row={row}
      icon={Brain}
      title={
        <span className="min-w-0 truncate text-muted">
          <span className="font-medium">Thinking</span> {!isOpen && oneLine(content, PREVIEW_CHARS)}
        </span>
      }
      fold={{ isOpen, onToggle }}
      events={[event]}
    >
      {isOpen && (
        <div className="text-muted">
          <Markdown text={content} />
        </div>
      )}
    </Card>
  )
}

/** The task as the agent is told it. */
export function UserMessageCard({ row, event }: { row: Row; event: LogEvent }) {
  return (
    <Card row={row} icon={UserRound} tone="speech" title={<Title>To the agent</Title>} events={[event]}>
      <div className="rounded bg-accent-soft px-2 py-1">
        <Words row={row} content={text(event.data, 'content') ?? ''} />
      </div>
    </Card>
  )
}

const SPEAKERS: Record<string, string> = { interrupt: 'interrupts', system: 'says, as the system', guardian_nudge: 'nudges' }

/** A message that has come before the agent: who sent it, and how long it was under way. */
export function InjectedCard({ row, event }: { row: Row; event: LogEvent }) {
  const kind = text(event.data, 'message_type') ?? ''
  return (
    <Card
      row={row}
      icon={MessageSquareText}
      tone="speech"
      title={
        <Title>
          {nameOf(text(event.data, 'sender_id') ?? 'somebody')} {SPEAKERS[kind] ?? 'says'}
        </Title>
      }
      meta={<Delay event={event} />}
      events={[event]}
    >
      <div className="rounded bg-accent-soft px-2 py-1">
        <Words row={row} content={text(event.data, 'content') ?? ''} />
      </div>
    </Card>
  )
}

export function InterruptedCard({ row, event }: { row: Row; event: LogEvent }) {
  const who = text(event.data, 'sender_id')
  const reason = text(event.data, 'reason')
  return (
    <Card
      row={row}
      icon={CirclePause}
      tone="warn"
      title={<Title>Interrupted{who !== undefined && ` by ${nameOf(who)}`}</Title>}
      meta={<Delay event={event} />}
      events={[event]}
    >
      {reason !== undefined && <p className="untrusted text-muted">{oneLine(reason, REASON_CHARS)}</p>}
      <p className="text-muted">The worker stays and waits for a message.</p>
    </Card>
  )
}

function Delay({ event }: { event: LogEvent }) {
  const { sandboxId } = useContext(CardsContext)
  const sent = useQuery(messageList(sandboxId))
  const id = text(event.data, 'message_id')
  const message = sent.data?.find((one) => one.id === id)
  if (!message) return null
  return <span>after {duration(Date.parse(event.at) - Date.parse(message.timestamp))}</span>
}

function Turn({ event }: { event: LogEvent }) {
  const turn = number(event.data, 'turn')
  return turn === undefined ? null : <span>turn {turn}</span>
}

/** Long ones are cut until all of it is asked for. */
function Words({ row, content }: { row: Row; content: string }) {
  const [isWhole, onToggle] = useOpen(`${row.key}-whole`)
  const short = content.split('\n', LINES_SHOWN).join('\n').slice(0, CHARS_SHOWN)
  const isLong = short.length < content.length
  return (
    <>
      <Markdown text={isWhole ? content : short} />
      {isLong && (
        <button
          type="button"
          aria-expanded={isWhole}
          onClick={onToggle}
          className="min-h-6 cursor-pointer text-xs text-subtle hover:text-fg hover:underline"
        >
          {isWhole ? 'Show less' : 'Show all'}
        </button>
      )}
    </>
  )
}
