// The server under test: the real program as a process of its own, with a data directory of its own.

import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import createClient from 'openapi-fetch'
import type { components, paths } from '../src/api/schema'

export type Schemas = components['schemas']
export type StoredEvent = Schemas['StoredEvent']

const PROGRAM = process.env.OMOI ?? ''
const STOP_MS = 15_000
const LOG_LINES = 30
const PAGE = 500

/** A task whose check proves that the agent boasts. */
export const FAILING: Partial<Schemas['NewTask']> = {
  title: 'Write a parser',
  execution_config: {
    model: 'scripted/boast',
    // Or nobody would order the sandbox that checks it.
    autonomous: true,
    checks: [{ name: 'tests', command: "echo 'parser.py:12: error: expected a comma' >&2; exit 2" }],
  },
}

type Banner = { url: string; first_token?: string }

export class Server {
  readonly #dir = mkdtempSync(join(tmpdir(), 'omoi-browser-'))
  #process: ChildProcess | undefined
  #url = ''
  #token = ''

  static async start(): Promise<Server> {
    const server = new Server()
    try {
      await server.start()
    } catch (error) {
      await server.end()
      throw error
    }
    return server
  }

  get url(): string {
    return this.#url
  }

  /** The one that the first start shows. */
  get token(): string {
    return this.#token
  }

  /** The API as an operator sees it. */
  get api() {
    return createClient<paths>({ baseUrl: this.#url, headers: { authorization: `Bearer ${this.#token}` } })
  }

  /** Starts it, or starts it again where it was. */
  async start() {
    const log = openSync(join(this.#dir, 'serve.log'), 'a')
    const listen = this.#url ? new URL(this.#url).host : '127.0.0.1:0'
    const child = spawn(PROGRAM, ['serve', '--json', '--listen', listen, '--data-dir', join(this.#dir, 'data')], {
      env: {
        HOME: this.#dir,
        PATH: process.env.PATH,
        OMOI_MODEL_SCENARIOS: join(import.meta.dirname, 'scenarios'),
        OMOI_LIMITS_FAILED_LOGINS_PER_MINUTE: '1000',
      },
      stdio: ['ignore', 'pipe', log],
    })
    this.#process = child
    const line = await firstLine(child)
    if (line === undefined) throw new Error(`the server does not start:\n${this.lastWords()}`)
    const banner = JSON.parse(line) as Banner
    this.#url = banner.url
    this.#token ||= banner.first_token ?? ''
  }

  /** `kill -9`, as a crash would; its sandboxes go on. */
  async kill() {
    await this.#stop('SIGKILL')
  }

  /** Stops it, and leaves neither a sandbox nor a file behind. */
  async end() {
    await this.#stop('SIGTERM')
    const places = join(this.#dir, 'data', 'sandboxes')
    for (const place of existsSync(places) ? readdirSync(places) : []) {
      execFileSync(join(dirname(PROGRAM), 'omoi-launcher'), ['remove', join(places, place)], { stdio: 'ignore' })
    }
    rmSync(this.#dir, { recursive: true, force: true })
  }

  lastWords(): string {
    return readFileSync(join(this.#dir, 'serve.log'), 'utf8').split('\n').slice(-LOG_LINES).join('\n')
  }

  /** The path of a new Git repository with one commit. */
  repository(name: string): string {
    const path = mkdtempSync(join(this.#dir, `${name}-`))
    writeFileSync(join(path, 'README.md'), `# ${name}\n`)
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=Test', '-c', 'user.email=test@example.invalid', ...args], { cwd: path, stdio: 'ignore' })
    git('init', '-b', 'main')
    git('add', '.')
    git('commit', '-m', 'Begin')
    return path
  }

  /** A project whose tasks wait until somebody starts them. */
  async project(name: string): Promise<Schemas['Project']> {
    const settings = { autonomous: false }
    const body = { name, repository_url: this.repository(name), default_branch: 'main', description: '', settings }
    return answer(await this.api.POST('/api/v1/projects', { body }))
  }

  async task(project: string, title: string, more: Partial<Schemas['NewTask']> = {}): Promise<Schemas['Task']> {
    const body = { project_id: project, title, description: title, ...more } as Schemas['NewTask']
    return answer(await this.api.POST('/api/v1/tasks', { body }))
  }

  /** A sandbox in which a scenario is played as a task of the project. */
  async play(project: string, scenario: string, more: Partial<Schemas['NewTask']> = {}): Promise<{ task: string; sandbox: string }> {
    const config = { model: `scripted/${scenario}` }
    const title = more.title ?? `Play ${scenario}`
    const task = await this.task(project, title, { execution_config: config, max_retries: 0, ...more })
    const order = { params: { path: { id: project } }, body: { task_id: task.id } }
    const made = await this.api.POST('/api/v1/projects/{id}/sandboxes', order)
    if (made.response.status !== 409) return { task: task.id, sandbox: answer(made).id }
    // The server was quicker, and has ordered one itself.
    const held = answer(await this.api.GET('/api/v1/tasks/{id}', { params: { path: { id: task.id } } }))
    return { task: task.id, sandbox: held.sandbox_id ?? '' }
  }

  /** A sandbox that somebody runs elsewhere for a task, and a way to report for it. */
  async external(name: string): Promise<{ id: string; report: (events: Schemas['PostedEvent'][]) => Promise<void> }> {
    const task = await this.task((await this.project(name)).id, name)
    const { sandbox, token } = answer(await this.api.POST('/api/v1/sandboxes', { body: { task_id: task.id, labels: {} } }))
    const own = createClient<paths>({ baseUrl: this.#url, headers: { authorization: `Bearer ${token}` } })
    const report = async (events: Schemas['PostedEvent'][]) => {
      answer(await own.POST('/api/v1/sandboxes/{id}/events', { params: { path: { id: sandbox.id } }, body: { events } }))
    }
    return { id: sandbox.id, report }
  }

  /** Everything that a sandbox has reported, in order. */
  async events(sandbox: string): Promise<StoredEvent[]> {
    const all: StoredEvent[] = []
    for (;;) {
      const query = { after: all.at(-1)?.seq ?? 0, limit: PAGE }
      const params = { path: { id: sandbox }, query }
      const page = answer(await this.api.GET('/api/v1/sandboxes/{id}/events', { params }))
      all.push(...page.events.toSorted((a, b) => a.seq - b.seq))
      if (page.events.length === 0) return all
    }
  }

  async #stop(signal: 'SIGTERM' | 'SIGKILL') {
    const child = this.#process
    this.#process = undefined
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill(signal)
    const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await exited
    clearTimeout(late)
  }
}

/** What a call answers; a refusal fails the test with the server's words. */
export function answer<T>({ data, error, response }: { data?: T; error?: unknown; response: Response }): T {
  if (data === undefined) throw new Error(`${response.url} answers ${response.status}: ${JSON.stringify(error)}`)
  return data
}

async function firstLine(child: ChildProcess): Promise<string | undefined> {
  if (!child.stdout) return undefined
  for await (const line of createInterface({ input: child.stdout })) return line
  return undefined
}
