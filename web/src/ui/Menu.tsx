import { Ellipsis } from 'lucide-react'
import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode, type RefObject } from 'react'
import { createPortal } from 'react-dom'

export type MenuItem = { label: string; onChoose: () => void; tone?: 'bad' }

type Props = {
  label: string
  items: readonly MenuItem[]
  /** What the button shows in place of three dots; its look is then `className` alone. */
  children?: ReactNode
  className?: string
}

const WIDTH_PX = 208
const ITEM_PX = 30
const EDGE_PX = 8
const LOOK = 'inline-flex size-6 shrink-0 cursor-pointer items-center justify-center rounded text-muted hover:bg-sunken hover:text-fg'

/** What can be done, behind a button. Arrow keys move in it, Escape closes it, and the button has the focus again. */
export function Menu({ label, items, children, className = '' }: Props) {
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
        aria-haspopup="menu"
        aria-expanded={at !== undefined}
        aria-controls={at && id}
        onClick={(event) => setAt(at ? undefined : event.currentTarget.getBoundingClientRect())}
        className={children ? className : `${LOOK} ${className}`}
      >
        {children ?? <Ellipsis size={15} aria-hidden />}
      </button>
      {at && <List id={id} label={label} items={items} at={at} button={button} onClose={close} />}
    </>
  )
}

type ListProps = Pick<Props, 'label' | 'items'> & {
  id: string
  at: DOMRect
  button: RefObject<HTMLElement | null>
  onClose: (isBack: boolean) => void
}

/** Outside of everything else, so that no list that scrolls cuts it off. */
function List({ id, label, items, at, button, onClose }: ListProps) {
  const list = useRef<HTMLDivElement>(null)
  useEffect(() => {
    list.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus()
    const onDown = (event: Event) => {
      // A press on the button is the button's own to answer.
      const isOurs = event.target instanceof Node && (list.current?.contains(event.target) || button.current?.contains(event.target))
      if (!isOurs) onClose(false)
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
      {items.map((item) => (
        <button
          key={item.label}
          type="button"
          role="menuitem"
          tabIndex={-1}
          onClick={() => {
            onClose(true)
            item.onChoose()
          }}
          className={`flex min-h-7 w-full cursor-pointer items-center rounded px-2 text-left hover:bg-sunken focus:bg-sunken ${item.tone === 'bad' ? 'text-bad' : ''}`}
        >
          {item.label}
        </button>
      ))}
    </div>,
    document.body,
  )
}
