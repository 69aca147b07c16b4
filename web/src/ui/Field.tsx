import { useId, type ReactNode } from 'react'

const CONTROL =
  'w-full rounded border border-line-strong bg-sunken px-2 text-fg placeholder:text-subtle aria-invalid:border-bad disabled:opacity-60'

type Common = {
  label: string
  hint?: ReactNode
  /** What is wrong with it, in words. */
  error?: string | undefined
  value: string
  onChange: (value: string) => void
}

type TextProps = Common & {
  required?: boolean
  placeholder?: string
  inputMode?: 'text' | 'numeric' | 'decimal'
  suggestions?: readonly string[]
  isCode?: boolean
}

export function TextField({ suggestions, isCode, onChange, required, placeholder, inputMode, ...common }: TextProps) {
  const list = useId()
  return (
    <Frame {...common} required={required}>
      {(told) => (
        <>
          <input
            {...told}
            type="text"
            value={common.value}
            required={required}
            placeholder={placeholder}
            inputMode={inputMode}
            list={suggestions && list}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => onChange(event.target.value)}
            className={`h-8 ${CONTROL} ${isCode ? 'font-mono text-xs' : ''}`}
          />
          {suggestions && (
            <datalist id={list}>
              {suggestions.map((word) => (
                <option key={word}>{word}</option>
              ))}
            </datalist>
          )}
        </>
      )}
    </Frame>
  )
}

type AreaProps = Common & { required?: boolean; placeholder?: string; rows?: number; isCode?: boolean }

export function AreaField({ rows = 3, isCode, onChange, required, placeholder, ...common }: AreaProps) {
  return (
    <Frame {...common} required={required}>
      {(told) => (
        <textarea
          {...told}
          rows={rows}
          value={common.value}
          required={required}
          placeholder={placeholder}
          spellCheck={!isCode}
          onChange={(event) => onChange(event.target.value)}
          className={`py-1.5 ${CONTROL} ${isCode ? 'font-mono text-xs' : ''}`}
        />
      )}
    </Frame>
  )
}

type SelectProps = Common & { options: readonly { value: string; label: string }[]; required?: boolean }

export function SelectField({ options, onChange, required, ...common }: SelectProps) {
  return (
    <Frame {...common} required={required}>
      {(told) => (
        <select
          {...told}
          value={common.value}
          required={required}
          onChange={(event) => onChange(event.target.value)}
          className={`h-8 ${CONTROL}`}
        >
          {options.map(({ value, label }) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      )}
    </Frame>
  )
}

type Told = { id: string; 'aria-describedby': string | undefined; 'aria-invalid': true | undefined }
type FrameProps = Pick<Common, 'label' | 'hint' | 'error'> & {
  required?: boolean | undefined
  children: (told: Told) => ReactNode
}

/** Label above, hint and error below, all of them tied to the control. */
function Frame({ label, hint, error, required, children }: FrameProps) {
  const id = useId()
  const ids = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ')
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <label htmlFor={id} className="font-medium">
        {label}
        {!required && <span className="ml-1.5 text-xs font-normal text-subtle">optional</span>}
      </label>
      {children({ id, 'aria-describedby': ids || undefined, 'aria-invalid': error ? true : undefined })}
      {error && (
        <p id={`${id}-error`} className="untrusted text-xs text-bad">
          {error}
        </p>
      )}
      {hint && (
        <p id={`${id}-hint`} className="text-xs text-muted">
          {hint}
        </p>
      )}
    </div>
  )
}
