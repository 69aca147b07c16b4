// What the parts of the monitor share: how a list is shown while it comes, is empty or is refused; how one of them is named.

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { asProblem } from '../../api/problem'
import { useSession } from '../../api/session'
import { More } from '../../ui/More'
import { ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine, shortId } from '../../ui/plain'
import { Quiet } from '../../ui/Section'
import { taskName } from '../home/queries'
import { projectNames, type Paged } from './queries'

const CHARS = 100
const LINK = 'inline-flex min-h-6 items-center text-accent hover:underline'

type ListQuery<T> = {
  data: { pages: Paged<T>[] } | undefined
  error: Error | null
  isPending: boolean
  refetch: () => unknown
  hasNextPage: boolean
  isFetchingNextPage: boolean
  fetchNextPage: () => unknown
}

type ListProps<T> = { list: ListQuery<T>; label: string; empty: ReactNode; children: (items: T[]) => ReactNode }

/** A list in all its states. */
export function List<T>({ list, label, empty, children }: ListProps<T>) {
  const items = list.data?.pages.flatMap((page) => page.items)
  return (
    <>
      {list.isPending && <Skeleton rows={3} label={`Loading ${label}`} />}
      {list.error && <ErrorPanel error={asProblem(list.error)} onRetry={() => void list.refetch()} />}
      {items?.length === 0 && <Quiet>{empty}</Quiet>}
      {items && items.length > 0 && children(items)}
      <More list={list} />
    </>
  )
}

/** What is done about one of a list: everything supervision knows may have changed by it. */
export function useDeed<T>(deed: (of: T) => Promise<unknown>) {
  const queries = useQueryClient()
  return useMutation({ mutationFn: deed, onSettled: () => queries.invalidateQueries({ queryKey: ['supervision'] }) })
}

/** Viewers look, and change nothing. */
export function useMayAct(): boolean {
  const role = useSession()?.role
  return role !== undefined && role !== 'viewer'
}

/** The sandbox, at the event where it shows where that is known. */
export function SandboxLink({ id, event, children }: { id: string; event?: number | undefined; children?: ReactNode }) {
  return (
    <Link to="/sandboxes/$id" params={{ id }} search={event === undefined ? {} : { event }} title={id} className={`${LINK} ${children ? '' : 'font-mono text-xs'}`}>
      {children ?? shortId(id)}
    </Link>
  )
}

/** A task by its title. */
export function TaskLink({ id }: { id: string }) {
  const { data } = useQuery(taskName(id))
  return (
    <Link to="/tasks/$id" params={{ id }} title={id} className={`untrusted ${LINK}`}>
      {data ? oneLine(data.title, CHARS) : shortId(id)}
    </Link>
  )
}

type ChoiceProps = { chosen: string | undefined; onChoose: (project: string | undefined) => void; isAllOffered?: boolean }

export function ProjectChoice({ chosen, onChoose, isAllOffered }: ChoiceProps) {
  const projects = useQuery(projectNames())
  return (
    <label className="flex items-center gap-2 text-xs text-muted">
      Project
      <select
        value={chosen ?? ''}
        onChange={(event) => onChoose(event.target.value || undefined)}
        className="h-7 max-w-50 rounded border border-line-strong bg-surface px-1 text-fg"
      >
        {isAllOffered && <option value="">all</option>}
        {projects.data?.items.map(({ id, name }) => (
          <option key={id} value={id}>
            {oneLine(name, CHARS)}
          </option>
        ))}
      </select>
    </label>
  )
}

export function Over({ isOn, onChange, children }: { isOn: boolean; onChange: (isOn: boolean) => void; children: string }) {
  return (
    <label className="flex min-h-6 items-center gap-1.5 text-xs text-muted">
      <input type="checkbox" checked={isOn} onChange={(event) => onChange(event.target.checked)} className="size-4 accent-accent" />
      {children}
    </label>
  )
}
