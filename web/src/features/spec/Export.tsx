import { useQuery } from '@tanstack/react-query'
import { Download } from 'lucide-react'
import { useState } from 'react'
import type { SpecLayout } from '../../api/types'
import { count } from '../../ui/amount'
import { Button } from '../../ui/Button'
import { download } from '../../ui/download'
import { SelectField } from '../../ui/Field'
import { ErrorPanel, Skeleton } from '../../ui/panels'
import { nameOf } from '../../ui/plain'
import { Quiet, Section } from '../../ui/Section'
import { specExport } from './queries'

const LAYOUTS: Record<SpecLayout, string> = {
  kiro: 'Markdown, as Kiro lays it out',
  spec_kit: 'Markdown, as spec-kit lays it out',
  json: 'JSON, one document',
}
const LAYOUT_WORDS = Object.keys(LAYOUTS) as SpecLayout[]

/** What stands of a spec, as files to keep. */
export function Export({ id, isBegun }: { id: string; isBegun: boolean }) {
  const [layout, setLayout] = useState<SpecLayout>()
  return (
    <Section title="Export">
      {isBegun ? (
        <div className="flex flex-col gap-2 px-3 py-2">
          <SelectField
            label="Layout"
            required
            value={layout ?? ''}
            onChange={(word) => setLayout(LAYOUT_WORDS.find((known) => known === word))}
            options={[{ value: '', label: 'choose one' }, ...LAYOUT_WORDS.map((word) => ({ value: word, label: LAYOUTS[word] }))]}
          />
          {layout && <Files id={id} layout={layout} />}
        </div>
      ) : (
        <Quiet>There is nothing to export yet.</Quiet>
      )}
    </Section>
  )
}

function Files({ id, layout }: { id: string; layout: SpecLayout }) {
  const { data, error, isPending, refetch } = useQuery(specExport(id, layout))
  if (isPending) return <Skeleton rows={2} label="Loading the files" />
  if (error) return <ErrorPanel error={error} onRetry={() => void refetch()} />
  const files = Object.entries(data.files)
  const type = layout === 'json' ? 'application/json' : 'text/markdown'
  const save = ([path, text]: [string, string]) => download(path.split('/').at(-1) ?? path, text, type)
  return (
    <>
      <ul>
        {files.map((file) => (
          <li key={file[0]} className="flex flex-wrap items-center gap-2 py-0.5">
            <code className="untrusted min-w-0 flex-1 font-mono text-xs text-muted">{nameOf(file[0])}</code>
            <Button onClick={() => save(file)} aria-label={`Download ${nameOf(file[0])}`}>
              <Download size={14} aria-hidden />
              Download
            </Button>
          </li>
        ))}
      </ul>
      {files.length > 1 && <Button onClick={() => files.forEach(save)}>Download all {count(files.length, 'file')}</Button>}
    </>
  )
}
