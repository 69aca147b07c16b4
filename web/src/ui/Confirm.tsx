import { useEffect, useId, useRef, type ReactNode } from 'react'
import { Button } from './Button'
import { ErrorPanel } from './panels'

type Props = {
  title: string
  /** What the button does, as a verb. */
  action: string
  isBusy: boolean
  error: Error | null
  onConfirm: () => void
  onClose: () => void
  children: ReactNode
}

/** Asks before something that cannot be taken back. Takes the focus, and gives it back when it closes. */
export function Confirm({ title, action, isBusy, error, onConfirm, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useEffect(() => {
    const element = dialog.current
    element?.showModal()
    return () => element?.close()
  }, [])
  return (
    <dialog
      ref={dialog}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      className="m-auto w-full max-w-md rounded-lg border border-line-strong bg-surface p-4 text-fg shadow-lg backdrop:bg-bg/70"
    >
      <h2 id={titleId} className="text-lg font-semibold">
        {title}
      </h2>
      <div className="flex flex-col gap-2 py-3 text-muted">{children}</div>
      {error && <ErrorPanel error={error} />}
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>Go back</Button>
        <Button look="main" disabled={isBusy} onClick={onConfirm}>
          {action}
        </Button>
      </div>
    </dialog>
  )
}
