import { render, screen } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { expect, test, vi } from 'vitest'
import { Menu } from './Menu'

function show() {
  const [open, stop] = [vi.fn<() => void>(), vi.fn<() => void>()]
  render(
    <Menu
      label="More"
      items={[
        { label: 'Open', onChoose: open },
        { label: 'Stop', onChoose: stop, tone: 'bad' },
      ]}
    />,
  )
  return { open, stop, button: screen.getByRole('button', { name: 'More' }) }
}

test('a menu is walked by arrows and gives the focus back', async () => {
  const { stop, open, button } = show()
  button.focus()
  await userEvent.keyboard('{Enter}')
  expect(document.activeElement?.textContent).toBe('Open')
  await userEvent.keyboard('{ArrowDown}{ArrowDown}{ArrowUp}')
  expect(document.activeElement?.textContent).toBe('Stop')
  await userEvent.keyboard('{Enter}')
  expect([open.mock.calls.length, stop.mock.calls.length]).toEqual([0, 1])
  expect([screen.queryByRole('menu'), document.activeElement]).toEqual([null, button])
})

test('a menu closes on Escape and on a press elsewhere', async () => {
  const { button } = show()
  await userEvent.click(button)
  await userEvent.keyboard('{Escape}')
  expect(screen.queryByRole('menu')).toBeNull()
  await userEvent.click(button)
  await userEvent.click(document.body)
  expect(screen.queryByRole('menu')).toBeNull()
})
