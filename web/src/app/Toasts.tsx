import { X } from 'lucide-react'
import { useEffect, useState } from 'react'
import { asProblem } from '../api/problem'
import { IconButton } from '../ui/IconButton'
import { tell, useToast, type Toast } from './toast'

/** Long enough to read it, see the mistake and reach for the button. */
const LASTS_MS = 10_000

/** What was just done, with Undo, above everything else and out of the way. */
export function Toasts() {
  const toast = useToast()
  return (
    <div role="status" className="pointer-events-none fixed inset-x-0 bottom-16 z-20 flex justify-center px-2 md:bottom-4">
      {toast && <One key={toast.id} toast={toast} />}
    </div>
  )
}

function One({ toast }: { toast: Toast }) {
  const [isHeld, setIsHeld] = useState(false)
  const [state, setState] = useState<'idle' | 'undoing' | Error>('idle')
  const isWaiting = !isHeld && state === 'idle'
  useEffect(() => {
    if (!isWaiting) return
    const timer = setTimeout(() => tell(undefined), LASTS_MS)
    return () => clearTimeout(timer)
  }, [isWaiting])
  const undo = () => {
    setState('undoing')
    toast.undo().then(
      () => tell(undefined),
      (error: unknown) => setState(asProblem(error)),
    )
  }
  return (
    // oxlint-disable-next-line jsx-a11y/no-static-element-interactions -- stays while somebody is at it, offers nothing itself
    <div
      onPointerEnter={() => setIsHeld(true)}
      onPointerLeave={() => setIsHeld(false)}
      onFocus={() => setIsHeld(true)}
      onBlur={() => setIsHeld(false)}
      className="pointer-events-auto flex max-w-full items-center gap-3 rounded-lg border border-line-strong bg-raised py-1 pr-1 pl-3 shadow-lg"
    >
      <span className="untrusted min-w-0">{state instanceof Error ? `Not undone: ${state.message}` : toast.words}</span>
      {!(state instanceof Error) && (
        <button
          type="button"
          disabled={state === 'undoing'}
          onClick={undo}
          className="min-h-6 shrink-0 cursor-pointer rounded px-2 font-medium text-accent hover:underline disabled:opacity-60"
        >
          {state === 'undoing' ? 'Undoing…' : 'Undo'}
        </button>
      )}
      <IconButton label="Dismiss" onClick={() => tell(undefined)}>
        <X size={14} aria-hidden />
      </IconButton>
    </div>
  )
}
