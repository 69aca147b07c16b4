import type { ButtonHTMLAttributes } from 'react'

type Props = ButtonHTMLAttributes<HTMLButtonElement> & { look?: 'plain' | 'main' }

const LOOKS = {
  plain: 'border border-line-strong bg-surface text-fg hover:bg-raised',
  /** The one next action. */
  main: 'bg-accent text-on-accent hover:opacity-90',
}

export function Button({ look = 'plain', className = '', ...rest }: Props) {
  return (
    <button
      type="button"
      {...rest}
      className={`inline-flex min-h-7 cursor-pointer items-center justify-center gap-1.5 rounded px-3 font-medium motion-safe:transition-colors motion-safe:duration-100 disabled:cursor-default disabled:opacity-60 ${LOOKS[look]} ${className}`}
    />
  )
}
