import { useEffect, useId, useRef, type ReactNode } from 'react'
import { Button } from './Button'

type Props = { title: string; onClose: () => void; children: ReactNode; actions?: ReactNode }

/** The browser's own dialog: it keeps the focus inside, closes on Escape and gives the focus back. */
export function Dialog({ title, onClose, children, actions }: Props) {
  const id = useId()
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const shown = dialog.current
    shown?.showModal()
    return () => shown?.close()
  }, [])
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      className="m-auto w-full max-w-120 rounded-lg border border-line bg-surface p-0 text-fg shadow-lg backdrop:bg-bg/70"
    >
      <div className="flex flex-col gap-3 p-4">
        <h2 id={id} className="text-base font-semibold">
          {title}
        </h2>
        {children}
        <div className="flex flex-wrap justify-end gap-2">
          {actions}
          <Button onClick={onClose}>Close</Button>
        </div>
      </div>
    </dialog>
  )
}
