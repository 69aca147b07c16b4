import { KEYS_CHOICE } from '../../app/keys'
import { chooseTheme, THEME_CHOICES, useThemeChoice, type ThemeChoice } from '../../app/theme'
import { useRemembered } from '../../ui/remembered'

const THEMES: Record<ThemeChoice, string> = { system: 'As the system has it', dark: 'Dark', light: 'Light' }

/** How the pages look and listen in this browser; nobody else sees any of it. */
export function Appearance() {
  const theme = useThemeChoice()
  const [keys, setKeys] = useRemembered(KEYS_CHOICE, ['on', 'off'])
  const [diff, setDiff] = useRemembered('diff', ['unified', 'split'])
  return (
    <>
      <p className="text-muted">Remembered by this browser alone.</p>
      <fieldset className="flex flex-col gap-1">
        <legend className="mb-1 font-medium">Theme</legend>
        {THEME_CHOICES.map((choice) => (
          <Choice key={choice} group="theme" isOn={choice === theme} onChoose={() => chooseTheme(choice)}>
            {THEMES[choice]}
          </Choice>
        ))}
      </fieldset>
      <fieldset className="flex flex-col gap-1">
        <legend className="mb-1 font-medium">Single keys</legend>
        <Choice group="keys" isOn={keys === 'on'} onChoose={() => setKeys('on')}>
          On: “?” lists them
        </Choice>
        <Choice group="keys" isOn={keys === 'off'} onChoose={() => setKeys('off')}>
          Off: only those with Ctrl or ⌘ work
        </Choice>
      </fieldset>
      <fieldset className="flex flex-col gap-1">
        <legend className="mb-1 font-medium">Diffs</legend>
        <Choice group="diff" isOn={diff === 'unified'} onChoose={() => setDiff('unified')}>
          One column
        </Choice>
        <Choice group="diff" isOn={diff === 'split'} onChoose={() => setDiff('split')}>
          Side by side
        </Choice>
      </fieldset>
    </>
  )
}

type ChoiceProps = { group: string; isOn: boolean; onChoose: () => void; children: string }

function Choice({ group, isOn, onChoose, children }: ChoiceProps) {
  return (
    <label className="flex min-h-7 items-center gap-2">
      <input type="radio" name={group} checked={isOn} onChange={onChoose} className="size-4 accent-accent" />
      {children}
    </label>
  )
}
