import type { Server } from './server'
import { expect, test, type Page } from './test'

/** A run that stands inside a tool until `open` is called. */
async function atTheGate(page: Page, server: Server, name: string) {
  const project = await server.project(name)
  const { sandbox, task } = await server.play(project.id, 'gate')
  await page.goto(`/sandboxes/${sandbox}`)
  const events = page.getByRole('log', { name: 'Events' })
  const tool = events.getByRole('article').filter({ hasText: 'until test -e gate' })
  await expect(tool.getByText('running', { exact: true })).toBeVisible()
  const open = async () => {
    const body = { argv: ['touch', '/workspace/gate'] }
    const { response } = await server.api.POST('/api/v1/sandboxes/{id}/commands', { params: { path: { id: sandbox } }, body })
    expect(response.status).toBe(202)
  }
  return { sandbox, task, events, tool, open }
}

async function say(page: Page, words: string) {
  await page.getByLabel('To the agent').fill(words)
  await page.getByRole('button', { name: 'Send' }).click()
}

test('a message that is sent while a tool runs is delivered, injected and obeyed', async ({ signedIn: page, server }) => {
  const { events, tool, open } = await atTheGate(page, server, 'steer')
  await say(page, 'Write in green')
  const sent = page.getByRole('list', { name: /Sent messages/ }).getByRole('listitem')
  await expect(sent).toContainText('Write in green')
  await expect(sent).toContainText('delivered')
  await expect(tool.getByText('running', { exact: true })).toBeVisible()

  await open()
  await expect(sent).toContainText(/injected|acknowledged/)
  await expect(events.getByRole('article').filter({ hasText: 'first says' }).first()).toContainText('Write in green')
  const edit = events.getByRole('article').filter({ hasText: 'Open diff' }).filter({ hasText: 'answer.txt' })
  await expect(edit.locator('.diff-added', { hasText: 'Write in green' })).toBeVisible()
  await expect(page.getByText(/^Completed, unverified/).first()).toBeVisible()
})

test('an interrupt ends what runs, and the agent waits for the next message', async ({ signedIn: page, server }) => {
  const { events, tool } = await atTheGate(page, server, 'interrupt')
  await page.getByRole('button', { name: 'Interrupt' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Interrupt' }).click()
  await expect(events.getByText('Interrupted by first', { exact: true })).toBeVisible()
  await expect(tool.getByText('running', { exact: true })).toBeHidden()
  await expect(page.getByRole('button', { name: 'Stop' })).toBeVisible()

  await say(page, 'Go on without the gate')
  await expect(events.locator('.diff-added', { hasText: 'Go on without the gate' })).toBeVisible()
  await expect(page.getByText(/^Completed, unverified/).first()).toBeVisible()
})
