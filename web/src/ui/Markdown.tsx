import type { Definition, Nodes, Parents, Root, RootContent, Table } from 'mdast'
import { fromMarkdown } from 'mdast-util-from-markdown'
import { gfmFromMarkdown } from 'mdast-util-gfm'
import { gfm } from 'micromark-extension-gfm'
import { Fragment, memo, useMemo, type ReactNode } from 'react'
import { plain, visible } from './plain'

/** What is nested deeper is shown as it was written. */
const DEPTH_MAX = 40

const OPTIONS = { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] }

/** What an agent wrote, with its headings, lists and code. Markup in it is text, and nothing is fetched for it. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const parts = useMemo(() => {
    const source = plain(text)
    const tree = fromMarkdown(source, OPTIONS)
    return shown(tree.children, { source, links: linksIn(tree), depth: 0 })
  }, [text])
  return <div className="markdown">{parts}</div>
})

type Around = { source: string; links: ReadonlyMap<string, Definition>; depth: number }

function shown(nodes: readonly RootContent[], around: Around): ReactNode[] {
  // oxlint-disable-next-line react/no-array-index-key -- a text is read once, and its parts never change places
  return nodes.map((node, index) => <Fragment key={index}>{part(node, around)}</Fragment>)
}

function part(node: RootContent, around: Around): ReactNode {
  if (around.depth > DEPTH_MAX) return around.source.slice(node.position?.start.offset, node.position?.end.offset)
  const inside = () => ('children' in node ? shown(node.children, { ...around, depth: around.depth + 1 }) : null)
  switch (node.type) {
    case 'text':
    // It is shown, so that nothing can be hidden in it.
    case 'html':
      return node.value
    case 'paragraph':
      return <p>{inside()}</p>
    case 'heading':
      // The page has its own headings.
      return <p className="heading">{inside()}</p>
    case 'emphasis':
      return <em>{inside()}</em>
    case 'strong':
      return <strong>{inside()}</strong>
    case 'delete':
      return <del>{inside()}</del>
    case 'inlineCode':
      return <code>{node.value}</code>
    case 'code':
      return (
        <pre>
          <code>{node.value}</code>
        </pre>
      )
    case 'blockquote':
      return <blockquote>{inside()}</blockquote>
    case 'break':
      return <br />
    case 'thematicBreak':
      return <hr />
    case 'list': {
      const items = node.children.map((item) => ({ ...item, isTight: !node.spread && !item.spread }))
      const List = node.ordered ? 'ol' : 'ul'
      const isToDo = items.some((item) => typeof item.checked === 'boolean')
      return (
        <List {...(node.ordered && node.start !== 1 && { start: node.start ?? 1 })} {...(isToDo && { className: 'contains-task-list' })}>
          {items.map((item, index) => (
            // oxlint-disable-next-line react/no-array-index-key -- as above
            <li key={index}>
              {typeof item.checked === 'boolean' && <Box isDone={item.checked} />}
              {shown(item.isTight ? item.children.flatMap(unwrapped) : item.children, { ...around, depth: around.depth + 1 })}
            </li>
          ))}
        </List>
      )
    }
    case 'table':
      return <Rows table={node} around={{ ...around, depth: around.depth + 1 }} />
    case 'link':
      return (
        <WebLink href={node.url} isSaid={isAddress(node, node.url)}>
          {inside()}
        </WebLink>
      )
    case 'linkReference': {
      const href = around.links.get(node.identifier)?.url ?? ''
      return (
        <WebLink href={href} isSaid={isAddress(node, href)}>
          {inside()}
        </WebLink>
      )
    }
    case 'image':
      return <Picture alt={node.alt} src={node.url} />
    case 'imageReference':
      return <Picture alt={node.alt} src={around.links.get(node.identifier)?.url ?? ''} />
    case 'footnoteReference':
      return <sup>[{node.label ?? node.identifier}]</sup>
    case 'footnoteDefinition':
      return (
        <div className="text-subtle">
          [{node.label ?? node.identifier}] {inside()}
        </div>
      )
    // Said where it is used. There is no front matter in what an agent says.
    case 'definition':
    case 'yaml':
      return null
    // Their own places show them.
    case 'listItem':
    case 'tableRow':
    case 'tableCell':
      return inside()
    default:
      return node satisfies never
  }
}

/** A list whose items stand close together has no paragraphs in them. */
function unwrapped(node: RootContent): RootContent[] {
  return node.type === 'paragraph' ? node.children : [node]
}

function Box({ isDone }: { isDone: boolean }) {
  return (
    <>
      <input type="checkbox" disabled checked={isDone} aria-label={isDone ? 'done' : 'to do'} />{' '}
    </>
  )
}

function Rows({ table, around }: { table: Table; around: Around }) {
  const [head, ...rows] = table.children.map((row, at) => (
    // oxlint-disable-next-line react/no-array-index-key -- as above
    <tr key={at}>
      {row.children.map((cell, column) => {
        const Cell = at === 0 ? 'th' : 'td'
        const align = table.align?.[column]
        return (
          // oxlint-disable-next-line react/no-array-index-key -- as above
          <Cell key={column} {...(align && { style: { textAlign: align } })}>
            {shown(cell.children, around)}
          </Cell>
        )
      })}
    </tr>
  ))
  return (
    <table>
      <thead>{head}</thead>
      {rows.length > 0 && <tbody>{rows}</tbody>}
    </table>
  )
}

/** A picture would tell its server who reads this, and when. */
function Picture({ alt, src }: { alt: string | null | undefined; src: string }) {
  const host = hostOf(src)
  return (
    <span className="text-subtle">
      [picture{alt ? `: ${alt}` : ''}
      {host ? `, at ${visible(host)}` : ''}]
    </span>
  )
}

/** Says where it leads, unless its text does. What does not lead to the web is no link. */
function WebLink({ href, isSaid, children }: { href: string; isSaid: boolean; children: ReactNode }) {
  const host = hostOf(href)
  if (!host) return <span>{children}</span>
  return (
    <>
      <a href={href} target="_blank" rel="noopener noreferrer nofollow" className="text-accent underline">
        {children}
      </a>
      {!isSaid && <span className="text-subtle"> ({visible(host)})</span>}
    </>
  )
}

function hostOf(href: string): string | undefined {
  try {
    const url = new URL(href)
    return url.protocol === 'https:' || url.protocol === 'http:' ? url.host : undefined
  } catch {
    return undefined
  }
}

/** Where the links lead that are named in one place and defined in another; the first of each name counts. */
function linksIn(tree: Root): ReadonlyMap<string, Definition> {
  const found = new Map<string, Definition>()
  const waiting: Nodes[] = [tree]
  for (let node = waiting.pop(); node; node = waiting.pop()) {
    if (node.type === 'definition' && !found.has(node.identifier)) found.set(node.identifier, node)
    if ('children' in node) waiting.push(...node.children.toReversed())
  }
  return found
}

/** Whether the text of a link is its address. */
function isAddress({ children: [text, more] }: Parents, href: string): boolean {
  return text?.type === 'text' && text.value === href && more === undefined
}
