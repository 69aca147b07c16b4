import type { Server } from './server'
import { answer } from './server'
import { expect, test } from './test'

/** Nothing is done without a person, and little is waited for. */
const SUGGEST = 'steering: suggest\nthresholds:\n  repeated_action: { times: 5 }\n'

async function watched(server: Server, name: string) {
  const project = await server.project(name)
  const path = { id: project.id }
  answer(await server.api.PUT('/api/v1/projects/{id}/policy', { params: { path }, body: { text: SUGGEST } }))
  return project
}

test('what the Guardian suggests appears by itself, is approved, and reaches the agent', async ({ signedIn: page, server }) => {
  const project = await watched(server, 'circles')
  await page.goto(`/monitor?tab=findings&project=${project.id}`)
  await expect(page.getByText('Nothing was said or done about any agent.')).toBeVisible()

  const { sandbox } = await server.play(project.id, 'circles', { title: 'Mend the discount' })
  const row = page.getByRole('region', { name: /^Interventions/ }).getByRole('listitem').filter({ hasText: 'goes in circles' })
  await expect(row.getByText('waits for you')).toBeVisible()
  await expect(row).toContainText('You go in circles')
  await expect(page.getByRole('banner').getByText(/needs? you/)).toBeVisible()
  await expect(page.getByRole('navigation').getByText(/suggestions? to decide/).first()).toBeAttached()

  await row.getByRole('button', { name: 'Approve' }).click()
  // The agent is inside a tool: it has the words, and has not seen them.
  await expect(row.getByText('delivered', { exact: true })).toBeVisible()
  await expect(row.getByRole('button', { name: 'Approve' })).toBeHidden()
  const body = { argv: ['touch', '/workspace/gate'] }
  answer(await server.api.POST('/api/v1/sandboxes/{id}/commands', { params: { path: { id: sandbox } }, body }))
  await expect(row.getByText(/^(before the agent|acted on)$/).first()).toBeVisible()

  await page.goto(`/sandboxes/${sandbox}?kinds=guardian`)
  const events = page.getByRole('log', { name: 'Events' })
  await expect(events.getByText('Guardian found: repeated action')).toBeVisible()
  await expect(events.getByText('Suggestion approved')).toBeVisible()
  await expect(page.getByRole('slider', { name: 'Moment' })).toHaveAttribute('aria-valuetext', /[1-9]\d* findings?/)
})

test('a policy is refused at its line, tried on what has run, saved and taken back', async ({ signedIn: page, server, watch }) => {
  watch.expect(/422.*\/policy\)/)
  const project = await server.project('rules')
  await page.goto(`/monitor?tab=policies&project=${project.id}`)
  const policy = page.getByLabel('Policy in YAML')
  await policy.fill('steering: suggest\nrules:\n  - on: drift\n    do: fly\n')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('button', { name: 'Line 4' })).toBeVisible()
  await expect(policy).toHaveAttribute('aria-invalid', 'true')

  await policy.fill('steering: off\n')
  await page.getByRole('button', { name: 'Try on the last 24 hours' }).click()
  await expect(page.getByText(/^It would have found: nothing/)).toBeVisible()
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByText(/a policy of its own, version 1; steering off/)).toBeVisible()
  await page.getByRole('button', { name: 'Undo' }).click()
  await expect(page.getByText(/the policy that comes with the program.*steering suggest/)).toBeVisible()
})

test('a project is paused with a reason, and the action is taken back', async ({ signedIn: page, server }) => {
  const project = await server.project('held')
  await page.goto(`/monitor?tab=actions&project=${project.id}`)
  await page.getByLabel('Why').fill('the build machine is on fire')
  await page.getByRole('button', { name: 'Pause the project' }).click()
  const row = page.getByRole('listitem').filter({ hasText: 'the build machine is on fire' })
  await expect(row).toContainText('paused: false → true')
  await expect(page.getByRole('heading', { name: 'held is paused' })).toBeVisible()
  await row.getByRole('button', { name: 'Take back' }).click()
  await expect(row).toContainText('taken back by')
  await expect(page.getByRole('heading', { name: 'Pause held' })).toBeVisible()
})
