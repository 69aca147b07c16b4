import { X } from 'lucide-react'
import { useEffect, useRef, type ReactNode } from 'react'

type Props = { label: string; onClose: () => void; children: ReactNode }

/** A panel over the right side of a page, which goes on working beside it. Takes the focus and gives it back. */
export function Drawer({ label, onClose, children }: Props) {
  const panel = useRef<HTMLElement>(null)
  useEffect(() => {
    const before = document.activeElement
    panel.current?.focus()
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  return (
    <aside
      ref={panel}
      aria-label={label}
      tabIndex={-1}
      className="absolute inset-y-0 right-0 z-20 flex w-full max-w-140 flex-col border-l border-line bg-bg shadow-lg outline-none"
    >
      <div className="flex h-11 shrink-0 items-center gap-2 border-b border-line bg-surface px-4">
        <span className="min-w-0 flex-1 truncate font-semibold">{label}</span>
        <button
          type="button"
          aria-label="Close"
          title="Close (Esc)"
          onClick={onClose}
          className="inline-flex size-7 cursor-pointer items-center justify-center rounded text-muted hover:bg-sunken hover:text-fg"
        >
          <X size={15} aria-hidden />
        </button>
      </div>
      <div className="min-h-0 flex-1 overflow-auto">{children}</div>
    </aside>
  )
}
