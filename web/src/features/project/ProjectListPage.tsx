import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useFresh } from '../../app/live'
import { More } from '../../ui/More'
import { Page } from '../../ui/Page'
import { Empty, ErrorPanel, Skeleton } from '../../ui/panels'
import { oneLine } from '../../ui/plain'
import { Table, type Heading } from '../../ui/Table'
import { Ago } from '../../ui/Time'
import { projectList } from './queries'

const HEADINGS: Heading[] = [
  { label: 'Name' },
  { label: 'Repository' },
  { label: 'Branch', from: 'md' },
  { label: 'Changed', from: 'md' },
]

const CHANGES = { entityTypes: ['project'] }
const CHARS = 200

export function ProjectListPage() {
  const list = useInfiniteQuery(projectList())
  useFresh(CHANGES, [['projects']])
  const projects = list.data?.pages.flatMap((page) => page.items) ?? []
  return (
    <Page
      title="Projects"
      aside={
        <Link to="/projects/new" className="text-accent underline">
          Add a project
        </Link>
      }
    >
      {list.isPending && <Skeleton rows={4} label="Loading projects" />}
      {list.error && <ErrorPanel error={list.error} onRetry={() => void list.refetch()} />}
      {list.data && projects.length === 0 && (
        <Empty title="No project yet.">
          <p>A project is a Git repository, on this machine or elsewhere, and what its agents may do.</p>
        </Empty>
      )}
      {projects.length > 0 && (
        <Table headings={HEADINGS}>
          {projects.map((project) => (
            <tr key={project.id} className="h-8 border-b border-line hover:bg-raised">
              <td className="px-4">
                <Link
                  to="/projects/$id"
                  params={{ id: project.id }}
                  className="untrusted inline-flex min-h-6 items-center font-medium text-accent hover:underline"
                >
                  {oneLine(project.name, CHARS)}
                </Link>
                {project.archived && <span className="ml-2 text-xs text-muted">archived</span>}
              </td>
              <td className="px-2 font-mono text-xs break-all text-muted">
                {project.repository_url ? oneLine(project.repository_url, CHARS) : 'none yet'}
              </td>
              <td className="hidden px-2 font-mono text-xs text-muted md:table-cell">
                {oneLine(project.default_branch, CHARS)}
              </td>
              <td className="hidden px-2 text-muted md:table-cell">
                <Ago at={project.updated_at} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      <More list={list} />
    </Page>
  )
}
