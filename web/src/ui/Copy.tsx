import { Check, Copy as CopyIcon } from 'lucide-react'
import { useEffect, useState, type ReactNode } from 'react'

const SHOWN_MS = 2_000

type Props = { text: string; label: string; children?: ReactNode; className?: string }

/** Copies a text and says that it did; where the browser forbids it, says that. */
export function Copy({ text, label, children, className = '' }: Props) {
  const [state, setState] = useState<'copied' | 'refused'>()
  useEffect(() => {
    if (!state) return
    const timer = setTimeout(() => setState(undefined), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [state])
  const Icon = state === 'copied' ? Check : CopyIcon
  return (
    <button
      type="button"
      title={label}
      aria-label={label}
      onClick={() => void copy(text).then((isDone) => setState(isDone ? 'copied' : 'refused'))}
      className={`inline-flex min-h-6 min-w-6 cursor-pointer items-center gap-1 rounded whitespace-nowrap hover:text-fg hover:underline ${className}`}
    >
      {children}
      <Icon size={12} aria-hidden />
      <span role="status" className="text-2xs empty:hidden">
        {state === 'copied' ? 'copied' : state === 'refused' ? 'not allowed' : ''}
      </span>
    </button>
  )
}

/** Whether it is in the clipboard now. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return false
  }
}
