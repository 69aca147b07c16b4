import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useSession } from '../../api/session'
import type { SpecDetail, SpecDuplicate } from '../../api/types'
import { count } from '../../ui/amount'
import { Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { ErrorPanel } from '../../ui/panels'
import { nameOf, oneLine } from '../../ui/plain'
import { Section } from '../../ui/Section'
import { State } from '../../ui/State'
import { Ago } from '../../ui/Time'
import { mayLink, offersOf, type Offer } from './duplicates'
import { duplicateKeep, duplicateLink } from './queries'

const TITLE_CHARS = 160

/** Tasks that may exist already: one stands in the place of the other, or both are done. */
export function Duplicates({ spec }: { spec: SpecDetail }) {
  const offers = offersOf(spec)
  if (offers.length === 0) return null
  const open = offers.filter(({ decided }) => !decided).length
  return (
    <Section
      title="May exist already"
      aside={<span className={open > 0 ? 'text-warn' : 'text-muted'}>{open > 0 ? `${count(open, 'task')} to decide about` : 'all decided'}</span>}
    >
      <ul>
        {offers.map((offer) => (
          <li key={offer.symbol} className="flex flex-col gap-1 border-b border-line px-3 py-2 last:border-b-0">
            <OfferView spec={spec} offer={offer} />
          </li>
        ))}
      </ul>
    </Section>
  )
}

function OfferView({ spec, offer }: { spec: SpecDetail; offer: Offer }) {
  const who = useSession()
  const queries = useQueryClient()
  const [linking, setLinking] = useState<SpecDuplicate>()
  const onSettled = () => queries.invalidateQueries({ queryKey: ['spec', spec.id] })
  const keep = useMutation({ mutationFn: () => duplicateKeep(spec.id, offer.symbol), onSettled })
  const link = useMutation({
    mutationFn: (existing: string) => duplicateLink(spec.id, offer.symbol, existing),
    onSuccess: () => setLinking(undefined),
    onSettled,
  })
  const mayDecide = who?.role !== 'viewer' && !spec.archived && !offer.decided
  return (
    <>
      <p>
        <span className="untrusted font-mono text-xs text-muted">{nameOf(offer.symbol)}</span>{' '}
        <TaskLink id={offer.task} title={offer.title} />
      </p>
      <ul className="flex flex-col gap-1 pl-3">
        {offer.existing.map((existing) => (
          <li key={existing.existing_task_id} className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <State state={existing.existing_status} />
            <TaskLink id={existing.existing_task_id} title={existing.existing_title} />
            <span className="text-xs text-muted tabular-nums">{Math.round(existing.similarity * 100)} % alike</span>
            {mayDecide && mayLink(existing) && (
              <Button
                disabled={keep.isPending || link.isPending}
                aria-label={`Use ${oneLine(existing.existing_title, TITLE_CHARS)} for ${nameOf(offer.symbol)}`}
                onClick={() => setLinking(existing)}
              >
                Use this one
              </Button>
            )}
          </li>
        ))}
      </ul>
      {offer.decided ? (
        <Decided by={offer.decided} />
      ) : (
        <div className="flex flex-wrap items-center gap-3">
          {mayDecide && (
            <Button disabled={keep.isPending || link.isPending} aria-label={`Keep ${nameOf(offer.symbol)}`} onClick={() => keep.mutate()}>
              {keep.isPending ? 'Keeping it…' : 'Keep it: it is other work'}
            </Button>
          )}
          <span className="text-xs text-muted">
            {spec.gates.length > 0 ? 'It does not begin until somebody decides.' : 'No phase waits for a person, so it begins anyway.'}
          </span>
        </div>
      )}
      {keep.error && (
        <div className="-mx-3">
          <ErrorPanel error={keep.error} />
        </div>
      )}
      {linking && (
        <Confirm
          title={`Use the existing task for ${nameOf(offer.symbol)}?`}
          action="Use the existing task"
          isBusy={link.isPending}
          error={link.error}
          onConfirm={() => link.mutate(linking.existing_task_id)}
          onClose={() => {
            setLinking(undefined)
            link.reset()
          }}
        >
          <p className="untrusted">
            “{oneLine(offer.title, TITLE_CHARS)}” is cancelled, and what waits for it waits for “
            {oneLine(linking.existing_title, TITLE_CHARS)}”. That cannot be taken back.
          </p>
        </Confirm>
      )}
    </>
  )
}

function Decided({ by: { decision, existing_title, decided_by, decided_at } }: { by: SpecDuplicate }) {
  return (
    <p className="untrusted text-xs text-muted">
      {decision === 'link' ? `“${oneLine(existing_title, TITLE_CHARS)}” stands in its place` : 'Kept as other work'}
      {decided_by && `, as ${nameOf(decided_by)} decided`} {decided_at && <Ago at={decided_at} />}
    </p>
  )
}

function TaskLink({ id, title }: { id: string; title: string }) {
  return (
    <Link to="/tasks/$id" params={{ id }} className="untrusted min-w-0 text-accent hover:underline">
      {oneLine(title, TITLE_CHARS)}
    </Link>
  )
}
