import { Ellipsis } from 'lucide-react'
import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from 'react'
import { createPortal } from 'react-dom'

export type MenuItem = { label: string; onChoose: () => void; tone?: 'bad' }

type Props = { label: string; items: readonly MenuItem[]; children?: ReactNode; className?: string }

const LOOK = 'inline-flex size-7 shrink-0 cursor-pointer items-center justify-center rounded text-muted hover:bg-sunken hover:text-fg'
const WIDTH_PX = 208
const ITEM_PX = 30
const EDGE_PX = 8

/** What can be done, behind a button. Arrow keys move in it, Escape closes it, and the button has the focus again. */
export function Menu({ label, items, children, className = LOOK }: Props) {
  const button = useRef<HTMLButtonElement>(null)
  /** Where the button stood when it was pressed; nothing while the menu is closed. */
  const [at, setAt] = useState<DOMRect>()
  const id = useId()
  const close = (isBack: boolean) => {
    setAt(undefined)
    if (isBack) button.current?.focus()
  }
  return (
    <>
      <button
        ref={button}
        type="button"
        aria-label={children ? undefined : label}
        title={children ? undefined : label}
        aria-haspopup="menu"
        aria-expanded={at !== undefined}
        aria-controls={at && id}
        onClick={(event) => setAt(at ? undefined : event.currentTarget.getBoundingClientRect())}
        className={className}
      >
        {children ?? <Ellipsis size={15} aria-hidden />}
      </button>
      {at && <List id={id} label={label} items={items} at={at} onClose={close} />}
    </>
  )
}

type ListProps = Pick<Props, 'label' | 'items'> & { id: string; at: DOMRect; onClose: (isBack: boolean) => void }

/** Outside of everything else, so that no list that scrolls cuts it off. */
function List({ id, label, items, at, onClose }: ListProps) {
  const list = useRef<HTMLDivElement>(null)
  useEffect(() => {
    list.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus()
    const onDown = (event: Event) => {
      if (!(event.target instanceof Node && list.current?.contains(event.target))) onClose(false)
    }
    document.addEventListener('pointerdown', onDown)
    document.addEventListener('scroll', onDown, true)
    return () => {
      document.removeEventListener('pointerdown', onDown)
      document.removeEventListener('scroll', onDown, true)
    }
    // oxlint-disable-next-line react/exhaustive-deps -- it is there as long as the menu is
  }, [])

  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    // No key of the page means anything while a menu is open.
    event.stopPropagation()
    event.nativeEvent.stopImmediatePropagation()
    const all = [...event.currentTarget.querySelectorAll<HTMLElement>('[role=menuitem]')]
    const now = all.findIndex((item) => item === document.activeElement)
    const next = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: all.length - 1 }[event.key]
    if (next !== undefined) {
      event.preventDefault()
      all[(next + all.length) % all.length]?.focus()
    } else if (event.key === 'Escape') {
      event.preventDefault()
      onClose(true)
    } else if (event.key === 'Tab') onClose(true)
  }

  const height = items.length * ITEM_PX + EDGE_PX
  const top = at.bottom + height > innerHeight ? Math.max(EDGE_PX, at.top - height) : at.bottom + 2
  const left = Math.max(EDGE_PX, Math.min(at.right - WIDTH_PX, innerWidth - WIDTH_PX - EDGE_PX))
  return createPortal(
    <div
      ref={list}
      id={id}
      role="menu"
      aria-label={label}
      tabIndex={-1}
      onKeyDown={onKeyDown}
      style={{ top, left, width: WIDTH_PX }}
      className="fixed z-30 rounded-md border border-line-strong bg-surface p-1 shadow-lg"
    >
      {items.map(({ label: words, onChoose, tone }) => (
        <button
          key={words}
          type="button"
          role="menuitem"
          tabIndex={-1}
          onClick={() => {
            onClose(true)
            onChoose()
          }}
          className={`flex min-h-7 w-full cursor-pointer items-center rounded px-2 text-left hover:bg-sunken focus:bg-sunken ${tone === 'bad' ? 'text-bad' : 'text-fg'}`}
        >
          {words}
        </button>
      ))}
    </div>,
    document.body,
  )
}
