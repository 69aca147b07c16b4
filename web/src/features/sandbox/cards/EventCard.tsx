import { memo } from 'react'
import type { LogEvent } from '../../../live/log'
import type { Row } from '../../../live/rows'
import { isOfSupervision } from '../search'
import { EditCard } from './Edit'
import { GuardCard } from './Guard'
import { BeatsCard, HoleCard, LineCard } from './Line'
import { InjectedCard, InterruptedCard, MessageCard, ThinkingCard, UserMessageCard } from './Speech'
import { ToolCard } from './Tool'

/** The card that fits a row. Rows that did not change are the same objects, so nothing is rendered for them. */
export const EventCard = memo(function EventCard({ row }: { row: Row }) {
  switch (row.kind) {
    case 'message':
      return <MessageCard row={row} />
    case 'tool':
      return <ToolCard row={row} />
    case 'edit':
      return <EditCard row={row} event={row.event} />
    case 'beats':
      return <BeatsCard row={row} />
    case 'hole':
      return <HoleCard count={row.count} />
    case 'event':
      return <OneEvent row={row} event={row.event} />
    default:
      return row satisfies never
  }
})

function OneEvent({ row, event }: { row: Row; event: LogEvent }) {
  switch (event.type) {
    case 'agent.thinking':
      return <ThinkingCard row={row} event={event} />
    case 'agent.user_message':
      return <UserMessageCard row={row} event={event} />
    case 'agent.message_injected':
      return <InjectedCard row={row} event={event} />
    case 'agent.interrupted':
      return <InterruptedCard row={row} event={event} />
    default:
      return isOfSupervision(event.type) ? <GuardCard row={row} event={event} /> : <LineCard row={row} event={event} />
  }
}
