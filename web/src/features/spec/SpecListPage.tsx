import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useSession } from '../../api/session'
import type { Project, SpecStatus, SpecSummary } from '../../api/types'
import { useFresh } from '../../app/live'
import { usd } from '../../ui/amount'
import { Button } from '../../ui/Button'
import { Menu } from '../../ui/Menu'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine } from '../../ui/plain'
import { State } from '../../ui/State'
import { Table, type Heading } from '../../ui/Table'
import { Ago } from '../../ui/Time'
import { mayArchive, useArchive } from './archive'
import { score, TITLES } from './phase'
import { projectChoice, specList } from './queries'
import { SPEC_STATUSES, type SpecListSearch } from './search'

const HEADINGS: Heading[] = [
  { label: 'State' },
  { label: 'Spec' },
  { label: 'Phase', from: 'md' },
  { label: 'Score', from: 'md' },
  { label: 'Cost', from: 'md' },
  { label: 'Project', from: 'md' },
  { label: 'Changed', from: 'md' },
  { label: 'Actions', isHidden: true },
]

const CHANGES = { entityTypes: ['spec'] }
const TITLE_CHARS = 300
const ERROR_CHARS = 160
const NEW = 'inline-flex min-h-7 items-center rounded bg-accent px-3 font-medium text-on-accent hover:opacity-90'

type Props = { search: SpecListSearch; onSearch: (search: SpecListSearch) => void }

export function SpecListPage({ search, onSearch }: Props) {
  const who = useSession()
  const list = useInfiniteQuery(specList(search))
  const projects = useQuery(projectChoice())
  useFresh(CHANGES, [['specs']])
  const specs = list.data?.pages.flatMap((page) => page.items) ?? []
  const isFiltered = search.project !== undefined || search.status !== undefined || search.archived === true
  const mayMake = who?.role !== 'viewer'

  return (
    <Page
      title="Specs"
      aside={
        <>
          <Filters search={search} projects={projects.data?.items ?? []} onSearch={onSearch} />
          {mayMake && (
            <Link to="/specs/new" search={search.project ? { project: search.project } : {}} className={NEW}>
              New spec
            </Link>
          )}
        </>
      }
    >
      {list.isPending && <Skeleton rows={6} label="Loading specs" />}
      {list.error && <ErrorPanel error={list.error} onRetry={() => void list.refetch()} />}
      {list.data && specs.length === 0 && (
        <Empty title={emptyWords(search, isFiltered)}>
          {isFiltered ? (
            <Button onClick={() => onSearch({})}>Show all specs</Button>
          ) : (
            <>
              <p>A spec takes an idea through requirements and design to tasks, and waits for you where it matters.</p>
              {mayMake && (
                <Link to="/specs/new" className="text-accent underline">
                  Write the first one
                </Link>
              )}
            </>
          )}
        </Empty>
      )}
      {specs.length > 0 && <SpecTable specs={specs} projects={projects.data?.items ?? []} mayAct={mayMake} />}
      {list.hasNextPage && (
        <div className="p-3">
          <Button disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
            {list.isFetchingNextPage ? 'Loading…' : 'Show more'}
          </Button>
        </div>
      )}
    </Page>
  )
}

function emptyWords({ archived, project, status }: SpecListSearch, isFiltered: boolean): string {
  if (archived && !project && !status) return 'No spec is archived.'
  return isFiltered ? 'No spec is like that.' : 'No spec yet.'
}

const SELECT = 'h-7 max-w-50 rounded border border-line-strong bg-surface px-1 text-fg'

function Filters({ search, projects, onSearch }: Props & { projects: Project[] }) {
  return (
    <>
      <label className="flex items-center gap-2 text-muted">
        Project
        <select
          value={search.project ?? ''}
          onChange={(event) => onSearch({ ...search, project: event.target.value || undefined })}
          className={SELECT}
        >
          <option value="">any</option>
          {projects.map(({ id, name }) => (
            <option key={id} value={id}>
              {oneLine(name, 60)}
            </option>
          ))}
        </select>
      </label>
      <label className="flex items-center gap-2 text-muted">
        State
        <select
          value={search.status ?? ''}
          onChange={(event) => onSearch({ ...search, status: (event.target.value || undefined) as SpecStatus | undefined })}
          className={SELECT}
        >
          <option value="">any</option>
          {SPEC_STATUSES.map((word) => (
            <option key={word}>{word}</option>
          ))}
        </select>
      </label>
      <label className="flex min-h-7 items-center gap-1.5 text-muted">
        <input
          type="checkbox"
          checked={search.archived === true}
          onChange={(event) => onSearch({ ...search, archived: event.target.checked || undefined })}
          className="size-4 accent-(--accent)"
        />
        Archived
      </label>
    </>
  )
}

type TableProps = { specs: SpecSummary[]; projects: Project[]; mayAct: boolean }

function SpecTable({ specs, projects, mayAct }: TableProps) {
  return (
    <Table headings={HEADINGS}>
      {specs.map((spec) => (
        <Row key={spec.id} spec={spec} project={projects.find(({ id }) => id === spec.project_id)?.name} mayAct={mayAct} />
      ))}
    </Table>
  )
}

function Row({ spec, project, mayAct }: { spec: SpecSummary; project: string | undefined; mayAct: boolean }) {
  const archive = useArchive(spec)
  return (
    <tr className="border-b border-line align-top hover:bg-raised">
      <td className="px-4 py-1.5">
        <State state={spec.status} />
      </td>
      <td className="px-2 py-1">
        <Link to="/specs/$id" params={{ id: spec.id }} className="untrusted inline-flex min-h-6 items-center hover:underline">
          {oneLine(spec.title, TITLE_CHARS)}
        </Link>
        {spec.status === 'waiting' && <p className="text-xs text-warn">{TITLES[spec.current_phase]}: waits for you</p>}
        {spec.status === 'executing' && <p className="text-xs text-muted md:hidden">{TITLES[spec.current_phase]}</p>}
        {spec.status === 'failed' && spec.last_error && (
          <p className="untrusted text-xs text-bad">{oneLine(spec.last_error, ERROR_CHARS)}</p>
        )}
        {archive.error && <p className="untrusted text-xs text-bad">{oneLine(archive.error.message, ERROR_CHARS)}</p>}
        <p className="text-xs text-muted tabular-nums md:hidden">
          {typeof spec.score === 'number' && `score ${score(spec.score)} · `}
          {usd(spec.cost_usd)}
        </p>
      </td>
      <td className="hidden px-2 py-1.5 whitespace-nowrap text-muted md:table-cell">{TITLES[spec.current_phase]}</td>
      <td className="hidden px-2 py-1.5 text-muted tabular-nums md:table-cell">
        {typeof spec.score === 'number' ? score(spec.score) : '–'}
      </td>
      <td className="hidden px-2 py-1.5 text-muted tabular-nums md:table-cell">{usd(spec.cost_usd)}</td>
      <td className="hidden px-2 py-1.5 md:table-cell">
        {spec.project_id ? (
          <Link to="/projects/$id" params={{ id: spec.project_id }} className="untrusted text-accent hover:underline">
            {oneLine(project ?? 'project', 60)}
          </Link>
        ) : (
          <span className="text-subtle">none</span>
        )}
      </td>
      <td className="hidden px-2 py-1.5 text-muted md:table-cell">
        <Ago at={spec.updated_at} />
      </td>
      <td className="px-2 py-1">
        {mayAct && mayArchive(spec) && (
          <Menu
            label={`Actions for ${oneLine(spec.title, 60)}`}
            items={[{ label: spec.archived ? 'Bring back' : 'Archive', onChoose: () => archive.mutate() }]}
          />
        )}
      </td>
    </tr>
  )
}
