import type { ReactNode } from 'react'
import { Markdown } from '../../../ui/Markdown'
import { nameOf, plain, visible } from '../../../ui/plain'
import { designOf, type Component, type Endpoint, type Model } from '../output'

export function Design({ output }: { output: unknown }) {
  const { overview, diagram, components, models, endpoints } = designOf(output)
  return (
    <div className="flex flex-col gap-4 px-3 py-2">
      {overview && <Markdown text={overview} />}
      {diagram && (
        <Part title="Diagram">
          {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard */}
          <pre role="region" aria-label="Diagram" tabIndex={0} className="overflow-x-auto rounded bg-sunken p-2 text-xs">
            <code className="font-mono">{visible(diagram)}</code>
          </pre>
        </Part>
      )}
      {components.length > 0 && (
        <Part title={`Components (${components.length})`}>
          <ul>
            {components.map((component) => (
              <ComponentRow key={`${component.name} ${component.file}`} component={component} />
            ))}
          </ul>
        </Part>
      )}
      {models.length > 0 && (
        <Part title={`Data (${models.length})`}>
          <ul className="flex flex-col gap-2">
            {models.map((model) => (
              <ModelRow key={model.name} model={model} />
            ))}
          </ul>
        </Part>
      )}
      {endpoints.length > 0 && (
        <Part title={`Endpoints (${endpoints.length})`}>
          <ul>
            {endpoints.map((endpoint) => (
              <EndpointRow key={`${endpoint.method} ${endpoint.path}`} endpoint={endpoint} />
            ))}
          </ul>
        </Part>
      )}
      <p className="text-xs text-muted">Tests, errors, security and migration are in the document.</p>
    </div>
  )
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <h3 className="font-semibold">{title}</h3>
      {children}
    </div>
  )
}

const ROW = 'flex flex-col gap-0.5 border-b border-line py-1.5 last:border-b-0'

function ComponentRow({ component: { name, kind, action, file, words, requirements } }: { component: Component }) {
  return (
    <li className={ROW}>
      <p className="flex flex-wrap items-baseline gap-x-3">
        <span className="untrusted font-medium">{nameOf(name)}</span>
        <span className="untrusted text-xs text-muted">{nameOf(kind)}</span>
        {file && <code className="untrusted font-mono text-xs">{nameOf(file)}</code>}
        {action === 'create' && <span className="text-xs text-ok">new file</span>}
      </p>
      <p className="untrusted text-muted">{plain(words)}</p>
      {requirements.length > 0 && (
        <p className="untrusted font-mono text-xs text-muted">{requirements.map(nameOf).join(', ')}</p>
      )}
    </li>
  )
}

function ModelRow({ model: { name, words, fields } }: { model: Model }) {
  return (
    <li>
      <p className="untrusted font-medium">{nameOf(name)}</p>
      {words && <p className="untrusted text-muted">{plain(words)}</p>}
      <dl className="grid grid-cols-[auto_1fr] gap-x-4">
        {fields.map(([field, kind]) => (
          <div key={field} className="contents">
            <dt className="untrusted font-mono text-xs">{nameOf(field)}</dt>
            <dd className="untrusted text-xs text-muted">{plain(kind)}</dd>
          </div>
        ))}
      </dl>
    </li>
  )
}

function EndpointRow({ endpoint: { method, path, words, isOpen } }: { endpoint: Endpoint }) {
  return (
    <li className={ROW}>
      <p className="flex flex-wrap items-baseline gap-x-2 font-mono text-xs">
        <span className="untrusted font-medium">{nameOf(method)}</span>
        <span className="untrusted">{nameOf(path)}</span>
        {isOpen && <span className="font-sans text-warn">without sign-in</span>}
      </p>
      <p className="untrusted text-muted">{plain(words)}</p>
    </li>
  )
}
