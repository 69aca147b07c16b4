import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useId, useMemo, useRef, useState, type KeyboardEvent } from 'react'
import { api, ask } from '../api/client'
import { oneLine, shortId } from '../ui/plain'
import { useOfferedActions, type PageAction } from './actions'
import { NAV } from './pages'
import { groupsOf, idKind, matching, type Found } from './palette'

const LATELY = 200
const CHARS = 100
const STALE_MS = 30_000

/** One box that goes anywhere and does what the open page can do. Own, because a list and an input need no library. */
export function Palette({ actions, onClose }: { actions: readonly PageAction[]; onClose: () => void }) {
  const id = useId()
  const dialog = useRef<HTMLDialogElement>(null)
  const [query, setQuery] = useState('')
  const [chosen, setChosen] = useState(0)
  const { items, isLoading, error } = useItems(actions, query)
  const found = useMemo(() => matching(items, idKind(query) ? '' : query), [items, query])
  const at = Math.min(chosen, found.length - 1)

  useEffect(() => {
    const shown = dialog.current
    shown?.showModal()
    return () => shown?.close()
  }, [])
  useEffect(() => {
    document.getElementById(`${id}-${at}`)?.scrollIntoView?.({ block: 'nearest' })
  }, [id, at])

  const run = (item: Found | undefined) => {
    if (!item) return
    onClose()
    item.run()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const count = found.length
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + count, Home: 0, End: count - 1 }[event.key]
    if (to !== undefined && count > 0 && !(query !== '' && (event.key === 'Home' || event.key === 'End'))) {
      event.preventDefault()
      setChosen(to % count)
    } else if (event.key === 'Enter') {
      event.preventDefault()
      run(found[at])
    }
  }

  return (
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-noninteractive-element-interactions -- a press beside it closes it, as Escape does
    <dialog
      ref={dialog}
      aria-label="Go to, search, act"
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
      className="mx-auto mt-[10dvh] mb-auto w-[calc(100%-1rem)] max-w-140 rounded-lg border border-line-strong bg-surface p-0 text-fg shadow-lg backdrop:bg-bg/70"
    >
      <input
        type="text"
        role="combobox"
        aria-label="Search pages, projects, tasks, sandboxes and actions"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={found[at] ? `${id}-${at}` : undefined}
        aria-autocomplete="list"
        value={query}
        placeholder="Go to, search, act…"
        spellCheck={false}
        autoComplete="off"
        onChange={(event) => {
          setQuery(event.target.value)
          setChosen(0)
        }}
        onKeyDown={onKeyDown}
        className="h-11 w-full border-b border-line bg-surface px-4 text-base placeholder:text-subtle focus-visible:outline-none"
      />
      <div id={`${id}-list`} role="listbox" aria-label="Found" className="max-h-[60dvh] overflow-y-auto p-1">
        {groupsOf(found).map(([group, members]) => (
          <div key={group} role="group" aria-label={group}>
            <p aria-hidden className="px-3 pt-2 pb-1 text-2xs text-subtle">
              {group}
            </p>
            {members.map((item) => {
              const index = found.indexOf(item)
              return (
                // oxlint-disable-next-line jsx-a11y/click-events-have-key-events -- the keys are the input's
                <div
                  key={item.id}
                  id={`${id}-${index}`}
                  role="option"
                  tabIndex={-1}
                  aria-selected={index === at}
                  onClick={() => run(item)}
                  onPointerMove={() => setChosen(index)}
                  className="flex min-h-8 cursor-pointer items-center gap-3 rounded px-3 aria-selected:bg-accent-soft aria-selected:text-accent"
                >
                  <span className="untrusted min-w-0 flex-1 truncate">{item.label}</span>
                  {item.hint && <span className="max-w-50 truncate font-mono text-2xs text-muted">{item.hint}</span>}
                </div>
              )
            })}
          </div>
        ))}
      </div>
      <p role="status" className="border-t border-line px-4 py-2 text-xs text-muted">
        {error
          ? 'Projects, tasks and sandboxes could not be loaded; pages and actions work.'
          : isLoading
            ? 'Loading…'
            : found.length === 0
              ? 'Nothing is called that. Names are searched among the newest; an id is found always.'
              : `${found.length} found. ↑ ↓ choose, Enter goes, Esc closes.`}
      </p>
    </dialog>
  )
}

/** What there is to find: what the page offers, where one can go, and the newest of what has a name. */
function useItems(actions: readonly PageAction[], query: string) {
  const navigate = useNavigate()
  const offered = useOfferedActions()
  const lists = useQuery({
    queryKey: ['palette'],
    staleTime: STALE_MS,
    queryFn: async ({ signal }) => {
      const params = { query: { limit: LATELY } }
      const [projects, tasks, sandboxes] = await Promise.all([
        ask(api.GET('/api/v1/projects', { params, signal })),
        ask(api.GET('/api/v1/tasks', { params, signal })),
        ask(api.GET('/api/v1/sandboxes', { params, signal })),
      ])
      return { projects: projects.items, tasks: tasks.items, sandboxes: sandboxes.items }
    },
  })
  const items = useMemo(() => {
    const toTask = (id: string) => void navigate({ to: '/tasks/$id', params: { id } })
    const toSandbox = (id: string) => void navigate({ to: '/sandboxes/$id', params: { id } })
    const toProject = (id: string) => void navigate({ to: '/projects/$id', params: { id } })
    const named = query.trim()
    const kind = idKind(named)
    if (kind) {
      const go = { task: toTask, sandbox: toSandbox, project: toProject }[kind]
      return [{ id: named, group: 'By its id', label: `Open ${kind} ${named}`, run: () => go(named) }]
    }
    const titles = new Map(lists.data?.tasks.map((task) => [task.id, task.title]))
    const act = (group: string) => (action: PageAction): Found => ({
      id: `${group} ${action.label}`,
      group,
      label: action.label,
      ...(action.keys && { hint: action.keys }),
      run: action.run,
    })
    return [
      ...offered.map(act('On this page')),
      ...NAV.map(({ to, label, keys }): Found => ({ id: to, group: 'Go to', label, hint: keys, run: () => void navigate({ to }) })),
      ...actions.map(act('Do')),
      ...(lists.data?.projects ?? []).map(
        ({ id, name }): Found => ({ id, group: 'Projects', label: oneLine(name, CHARS), hint: shortId(id), also: id, run: () => toProject(id) }),
      ),
      ...(lists.data?.tasks ?? []).map(
        ({ id, title, status }): Found => ({ id, group: 'Tasks', label: oneLine(title, CHARS), hint: `${status} ${shortId(id)}`, also: id, run: () => toTask(id) }),
      ),
      ...(lists.data?.sandboxes ?? []).map(
        ({ id, task_id, status }): Found => ({
          id,
          group: 'Sandboxes',
          label: oneLine((task_id && titles.get(task_id)) || shortId(id), CHARS),
          hint: `${status} ${shortId(id)}`,
          also: id,
          run: () => toSandbox(id),
        }),
      ),
    ]
  }, [lists.data, offered, actions, query, navigate])
  return { items, isLoading: lists.isPending, error: lists.error }
}
