import { BookOpen, FileSearch, FilePen, FolderSearch, GraduationCap, ListTodo, Search, SquareTerminal, Users, Wrench, type LucideIcon } from 'lucide-react'
import { useMemo } from 'react'
import { commandOf } from '../../../live/facts'
import { array, field, flag, number, text } from '../../../live/fields'
import type { ToolRow } from '../../../live/rows'
import { ansiLines } from '../../../ui/ansi'
import { AnsiLine } from '../../../ui/Ansi'
import { bytes, money, tokens } from '../../../ui/figures'
import { Markdown } from '../../../ui/Markdown'
import { nameOf, oneLine } from '../../../ui/plain'
import { duration } from '../../../ui/time'
import { isFailed, isRunning, outputOf } from '../call'
import { Card, Title, useOpen, Well } from './Card'
import { CallCost } from './Speech'

const ICONS: Record<string, LucideIcon> = {
  Read: BookOpen,
  Glob: FolderSearch,
  Grep: Search,
  Write: FilePen,
  Edit: FilePen,
  TodoWrite: ListTodo,
  Task: Users,
  Skill: GraduationCap,
}
/** Fields of a tool's input that tell what it does, the most telling first. */
const TELLING = ['file_path', 'pattern', 'path', 'url', 'query', 'description', 'prompt']
const TITLE_CHARS = 300
const LINES_SHOWN = 3
/** What failed says more. */
const LINES_FAILED = 12
const LINES_OPEN = 200

export function ToolCard({ row }: { row: ToolRow }) {
  const tool = toolOf(row)
  if (commandOf(row) !== undefined) return <CommandCard row={row} />
  if (tool === 'Task' || row.use?.type === 'agent.subagent_invoked') return <HelperCard row={row} />
  return <PlainTool row={row} tool={tool} />
}

export function toolOf(row: ToolRow): string {
  const told = text(row.use?.data, 'tool') ?? text(row.done?.data, 'tool') ?? text(row.result?.data, 'tool')
  return told ?? (row.started || row.ended ? 'Bash' : 'tool')
}

function CommandCard({ row }: { row: ToolRow }) {
  const command = commandOf(row) ?? ''
  const isBad = isFailed(row)
  const [isOpen, onToggle] = useOpen(row.key)
  const output = useMemo(() => ansiLines(outputOf(row)), [row])
  const shown = output.slice(isOpen ? -LINES_OPEN : isBad ? -LINES_FAILED : -LINES_SHOWN)
  const hidden = output.length - shown.length
  return (
    <Card
      row={row}
      icon={SquareTerminal}
      tone={isBad ? 'bad' : isRunning(row) ? 'run' : 'plain'}
      title={
        <Title isCode>
          <span className="text-subtle">$ </span>
          {oneLine(command, TITLE_CHARS)}
        </Title>
      }
      fold={{ isOpen, onToggle }}
      meta={<Figures row={row} />}
      events={partsOf(row)}
    >
      {isOpen && command.includes('\n') && <Well text={command} label="command" />}
      {shown.length > 0 && (
        <div className="term max-h-96 overflow-auto rounded px-2 py-1 font-mono text-xs leading-4">
          {hidden > 0 && <p className="term-note">{hidden} lines before</p>}
          {shown.map((spans, index) => (
            // oxlint-disable-next-line react/no-array-index-key -- lines only come at the end, counted from the beginning
            <div key={hidden + index} className="term-line">
              <AnsiLine spans={spans} />
            </div>
          ))}
        </div>
      )}
      {row.output.droppedBytes > 0 && <p className="text-xs text-warn">{bytes(row.output.droppedBytes)} more were not kept</p>}
    </Card>
  )
}

/** A helper: what it was asked, what it did, what it answered. Its own events are rows below this one. */
function HelperCard({ row }: { row: ToolRow }) {
  const [isOpen, onToggle] = useOpen(row.key)
  const input = field(row.use?.data, 'input') ?? field(row.done?.data, 'tool_input')
  const kind = text(row.use?.data, 'subagent_type') ?? text(input, 'subagent_type')
  const about = text(row.use?.data, 'subagent_description') ?? text(input, 'description') ?? ''
  const prompt = text(row.use?.data, 'subagent_prompt') ?? text(input, 'prompt')
  const answer = text(row.done?.data, 'subagent_result') ?? text(row.result?.data, 'result')
  const cost = number(row.done?.data, 'subagent_cost_usd')
  const usage = field(row.done?.data, 'subagent_usage')
  const written = number(usage, 'output_tokens')
  return (
    <Card
      row={row}
      icon={Users}
      tone={isFailed(row) ? 'bad' : isRunning(row) ? 'run' : 'plain'}
      title={
        <Title>
          Helper{kind !== undefined && ` ${nameOf(kind)}`} <span className="font-normal text-muted">{oneLine(about, TITLE_CHARS)}</span>
        </Title>
      }
      fold={{ isOpen, onToggle }}
      meta={
        <>
          <Figures row={row} />
          {written !== undefined && <span>{tokens(written)} out</span>}
          {cost !== undefined && cost > 0 && <span>{money(cost)}</span>}
          {row.children.length > 0 && <span>{row.children.length} steps</span>}
        </>
      }
      events={partsOf(row)}
    >
      {isOpen && prompt !== undefined && <Well text={prompt} label="asked" />}
      {answer !== undefined && (isOpen ? <Markdown text={answer} /> : <p className="truncate text-muted">{oneLine(answer, TITLE_CHARS)}</p>)}
    </Card>
  )
}

/** Reading, searching, writing and every tool that is not known: its name, what it is about, and the rest when asked. */
function PlainTool({ row, tool }: { row: ToolRow; tool: string }) {
  const isBad = isFailed(row)
  const [isOpen, onToggle] = useOpen(row.key, isBad)
  const input = field(row.use?.data, 'input') ?? field(row.done?.data, 'tool_input')
  const about = text(row.use?.data, 'skill_name') ?? TELLING.map((name) => text(input, name)).find((value) => value !== undefined)
  const result = text(row.result?.data, 'result') ?? text(row.done?.data, 'tool_response')
  return (
    <Card
      row={row}
      icon={ICONS[tool] ?? (row.use?.type === 'agent.skill_invoked' ? GraduationCap : tool.includes('File') ? FileSearch : Wrench)}
      tone={isBad ? 'bad' : isRunning(row) ? 'run' : 'plain'}
      title={
        <Title>
          {oneLine(tool, 80)} <span className="font-mono text-xs font-normal text-muted">{nameOf(oneLine(about ?? '', TITLE_CHARS))}</span>
        </Title>
      }
      fold={{ isOpen, onToggle }}
      meta={
        <>
          <Found row={row} />
          <Figures row={row} />
        </>
      }
      events={partsOf(row)}
    >
      {tool === 'TodoWrite' && <Todos items={array(input, 'todos')} />}
      {isOpen && input !== undefined && tool !== 'TodoWrite' && <Well text={JSON.stringify(input, null, 2)} label="input" />}
      {isOpen && result !== undefined && (
        <Well text={result} label={flag(row.result?.data, 'result_truncated') ? 'result, its beginning' : 'result'} />
      )}
    </Card>
  )
}

/** How much a search has found. */
function Found({ row }: { row: ToolRow }) {
  const response = field(row.done?.data, 'tool_response')
  const count = (name: string) => number(response, name) ?? (Array.isArray(field(response, name)) ? array(response, name).length : undefined)
  const [matches, files, lines] = [count('matches'), count('count') ?? count('files'), count('lines')]
  const words = [
    matches !== undefined && `${matches} matches`,
    files !== undefined && `${files} files`,
    lines !== undefined && `${lines} lines`,
  ].filter(Boolean)
  return words.length === 0 ? null : <span>{words.join(' in ')}</span>
}

const TODO_MARKS: Record<string, string> = { completed: '✓', in_progress: '▸', pending: '○' }

function Todos({ items }: { items: readonly unknown[] }) {
  return (
    <ul className="text-muted">
      {items.slice(0, 50).map((item, index) => {
        const status = text(item, 'status') ?? 'pending'
        return (
          // oxlint-disable-next-line react/no-array-index-key -- the list is written whole each time
          <li key={index} className={status === 'in_progress' ? 'text-fg' : ''}>
            <span aria-hidden>{TODO_MARKS[status] ?? '○'}</span>
            <span className="sr-only">{nameOf(status).replace('_', ' ')}:</span> {oneLine(text(item, 'content') ?? '', TITLE_CHARS)}
          </li>
        )
      })}
    </ul>
  )
}

/** How it went: running, how long it took, how it ended. */
function Figures({ row }: { row: ToolRow }) {
  const took = number(row.done?.data, 'duration_ms') ?? number(row.ended?.data, 'duration_ms') ?? number(row.done?.data, 'subagent_duration_ms')
  const code = number(row.done?.data, 'exit_code') ?? number(row.ended?.data, 'exit_code')
  const signal = number(row.ended?.data, 'signal') ?? text(row.ended?.data, 'signal')
  return (
    <>
      {isRunning(row) && <span className="pulse rounded bg-run-soft px-1.5 text-run">running</span>}
      {code !== undefined && code !== 0 && <span className="rounded bg-bad-soft px-1.5 text-bad">exit {code}</span>}
      {code === 0 && <span>exit 0</span>}
      {signal !== undefined && <span className="rounded bg-bad-soft px-1.5 text-bad">signal {nameOf(String(signal))}</span>}
      {code === undefined && isFailed(row) && <span className="rounded bg-bad-soft px-1.5 text-bad">failed</span>}
      {took !== undefined && <span>{duration(took)}</span>}
      {row.call && <CallCost call={row.call} />}
    </>
  )
}

function partsOf(row: ToolRow) {
  return [row.call, row.use, row.started, row.ended, row.result, row.done]
}
