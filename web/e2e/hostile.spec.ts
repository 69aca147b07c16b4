import { expect, test } from './test'

const TITLE = '<img src="https://evil.example/title.png" onerror="alert(1)"> \u202eeltit'

// The watch fails it on any script, request to elsewhere, dialog or breach of the policy.
test('what an agent writes is shown as text, and nothing in it runs or is fetched', async ({ signedIn: page, server }) => {
  const project = await server.project('hostile')
  const { sandbox, task } = await server.play(project.id, 'hostile', { title: TITLE })
  await page.goto(`/sandboxes/${sandbox}`)
  await expect(page.getByText(/^Completed, unverified/).first()).toBeVisible()
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('<img src="https://evil.example/title.png" onerror="alert(1)"> ⟨U+202E⟩eltit')
  await expect(page).toHaveTitle(/onerror/)

  // Tall enough for every card.
  await page.setViewportSize({ width: 1440, height: 4000 })
  const events = page.getByRole('log', { name: 'Events' })
  const speech = events.getByRole('article').filter({ hasText: 'a picture' }).last()
  await expect(speech).toContainText("<script>document.title = 'taken'</script>")
  await expect(speech).toContainText('<img src="https://evil.example/raw.png"')
  await expect(speech).toContainText('[picture: a picture, at evil.example]')
  await expect(speech).toContainText('⟨U+202E⟩reversed⟨U+202C⟩, zero⟨U+200B⟩width and a bell ␇')
  await expect(speech.getByRole('link')).toHaveText(['a bank'])
  await expect(speech.getByRole('link')).toHaveAttribute('rel', /noopener.*nofollow/)
  await expect(speech).toContainText('a bank (evil.example)')

  const terminal = page.getByRole('region', { name: /^Terminal/ })
  await expect(terminal.locator('.ansi-red-fg', { hasText: 'red' })).toBeVisible()
  await expect(terminal).toContainText('<script>document.title = 1</script>')
  await expect(terminal).toContainText('left ⟨U+202E⟩right')

  await page.getByRole('tab', { name: /^Files/ }).click()
  await expect(page.getByRole('list', { name: 'Changed files' })).toContainText('invoice⟨U+202E⟩fdp.sh')
  const diff = page.getByRole('region', { name: 'Diff' })
  await expect(diff).toContainText("<script>document.title = 'taken'</script>")
  await expect(diff).toContainText('if user⟨U+2066⟩ == admin⟨U+2069⟩:')
  await expect(diff).toContainText('␛[31mred␛[0m')
  for (const data of await events.getByRole('button', { name: 'Data' }).all()) {
    await data.click()
    await data.click()
  }
  for (const tab of await page.getByRole('tab').all()) await tab.click()

  for (const path of [`/tasks/${task}`, '/tasks', '/']) {
    await page.goto(path)
    await expect(page.getByRole('main')).toContainText('⟨U+202E⟩eltit')
  }
  for (const element of ['script:not([src])', 'iframe', 'img', 'object', 'embed', '[onerror]']) {
    await expect(page.locator(`body ${element}`)).toHaveCount(0)
  }
})
