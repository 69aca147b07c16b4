import { render, screen } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { expect, test, vi } from 'vitest'
import { useKeys } from './keys'

function Page({ go, theme, help }: { go: () => void; theme: () => void; help: () => void }) {
  useKeys({ 'g x': go, 'alt t': theme, '?': help })
  return <input aria-label="field" />
}

test('keys act alone and in sequence, and not while somebody types', async () => {
  const [go, theme, help] = [vi.fn<() => void>(), vi.fn<() => void>(), vi.fn<() => void>()]
  render(<Page go={go} theme={theme} help={help} />)
  const counts = () => [go, theme, help].map((call) => call.mock.calls.length)
  await userEvent.keyboard('x')
  await userEvent.keyboard('gx')
  expect(counts()).toEqual([1, 0, 0])
  await userEvent.keyboard('gyx')
  expect(counts()).toEqual([1, 0, 0])
  await userEvent.keyboard('{Alt>}t{/Alt}?')
  expect(counts()).toEqual([1, 1, 1])
  await userEvent.keyboard('{Control>}?{/Control}')
  await userEvent.type(screen.getByLabelText('field'), 'gx?')
  expect(counts()).toEqual([1, 1, 1])
})

test('the second key of a sequence is not taken alone by another table', async () => {
  const [go, alone] = [vi.fn<() => void>(), vi.fn<() => void>()]
  function Inner() {
    useKeys({ x: alone })
    return null
  }
  function Outer() {
    useKeys({ 'g x': go })
    return <Inner />
  }
  render(<Outer />)
  await userEvent.keyboard('gx')
  expect([go.mock.calls.length, alone.mock.calls.length]).toEqual([1, 0])
  await userEvent.keyboard('x')
  expect([go.mock.calls.length, alone.mock.calls.length]).toEqual([1, 1])
})
