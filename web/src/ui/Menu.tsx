import { Ellipsis } from 'lucide-react'
import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from 'react'

export type MenuItem = { label: string; onChoose: () => void; tone?: 'bad' }

type Props = { label: string; items: readonly MenuItem[]; children?: ReactNode; className?: string; align?: 'left' | 'right'; side?: 'below' | 'above' }

const LOOK = 'inline-flex size-7 cursor-pointer items-center justify-center rounded text-muted hover:bg-raised hover:text-fg'

/** A button and the list of actions that it opens. Arrow keys move in it; Escape and a click elsewhere close it. */
export function Menu({ label, items, children, className = LOOK, align = 'right', side = 'below' }: Props) {
  const id = useId()
  const [isOpen, setIsOpen] = useState(false)
  const box = useRef<HTMLDivElement>(null)
  const button = useRef<HTMLButtonElement>(null)

  useEffect(() => {
    if (!isOpen) return
    entries(box.current)[0]?.focus()
    const onPress = (event: PointerEvent) => {
      if (event.target instanceof Node && !box.current?.contains(event.target)) setIsOpen(false)
    }
    document.addEventListener('pointerdown', onPress)
    return () => document.removeEventListener('pointerdown', onPress)
  }, [isOpen])

  const close = () => {
    setIsOpen(false)
    button.current?.focus()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isOpen) return
    const all = entries(box.current)
    const at = all.indexOf(document.activeElement as HTMLElement)
    const next = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key]
    if (next !== undefined) {
      event.preventDefault()
      all[next % all.length]?.focus()
    } else if (event.key === 'Escape') {
      event.preventDefault()
      close()
    } else if (event.key === 'Tab') setIsOpen(false)
  }

  return (
    // oxlint-disable-next-line jsx-a11y/no-static-element-interactions -- the entries take the focus, this hears their keys
    <div ref={box} className="relative inline-flex" onKeyDown={onKeyDown}>
      <button
        ref={button}
        type="button"
        aria-label={children ? undefined : label}
        title={children ? undefined : label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={() => setIsOpen(!isOpen)}
        className={className}
      >
        {children ?? <Ellipsis size={15} aria-hidden />}
      </button>
      {isOpen && (
        <div
          id={id}
          role="menu"
          aria-label={label}
          className={`absolute z-20 flex min-w-44 flex-col rounded-lg border border-line-strong bg-surface p-1 shadow-lg ${align === 'right' ? 'right-0' : 'left-0'} ${side === 'below' ? 'top-full mt-1' : 'bottom-full mb-1'}`}
        >
          {items.map(({ label: words, onChoose, tone }) => (
            <button
              key={words}
              type="button"
              role="menuitem"
              tabIndex={-1}
              onClick={() => {
                close()
                onChoose()
              }}
              className={`min-h-7 cursor-pointer rounded px-2 text-left whitespace-nowrap hover:bg-sunken focus-visible:bg-sunken ${tone === 'bad' ? 'text-bad' : 'text-fg'}`}
            >
              {words}
            </button>
          ))}
        </div>
      )}
    </div>
  )
}

function entries(box: HTMLElement | null): HTMLElement[] {
  return [...(box?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])]
}
