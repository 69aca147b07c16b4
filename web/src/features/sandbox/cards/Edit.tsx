import { FileDiff } from 'lucide-react'
import { useContext } from 'react'
import { number, text } from '../../../live/fields'
import type { LogEvent } from '../../../live/log'
import type { Row } from '../../../live/rows'
import { Counts } from '../../../ui/Counts'
import { DiffStart } from '../../../ui/DiffView'
import { nameOf } from '../../../ui/plain'
import { Card, CardsContext, Title } from './Card'

const LINES_SHOWN = 6

/** A file that is different now. */
export function EditCard({ row, event }: { row: Row; event: LogEvent }) {
  const { onFile } = useContext(CardsContext)
  const path = text(event.data, 'file_path') ?? 'a file without a name'
  const from = text(event.data, 'previous_path')
  const preview = text(event.data, 'diff_preview') ?? text(event.data, 'full_diff')
  return (
    <Card
      row={row}
      icon={FileDiff}
      title={<Title isCode>{nameOf(path)}</Title>}
      meta={
        <>
          <span>
            {nameOf(text(event.data, 'change_type') ?? 'modified')}
            {from !== undefined && ` from ${nameOf(from)}`}
          </span>
          <Counts added={number(event.data, 'lines_added')} removed={number(event.data, 'lines_removed')} />
          <button
            type="button"
            onClick={() => onFile(path, event.seq)}
            className="min-h-6 cursor-pointer rounded border border-line-strong px-2 text-muted hover:bg-raised hover:text-fg"
          >
            Open diff
          </button>
        </>
      }
      events={[event]}
    >
      {preview !== undefined && <DiffStart text={preview} lines={LINES_SHOWN} />}
    </Card>
  )
}
