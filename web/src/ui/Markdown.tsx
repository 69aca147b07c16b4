import { memo, type ComponentProps } from 'react'
import ReactMarkdown, { type Components } from 'react-markdown'
import gfm from 'remark-gfm'
import { plain, visible } from './plain'

const PLUGINS = [gfm]

/** What an agent wrote, with its headings, lists and code. Markup in it is text, and nothing is fetched for it. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  return (
    <div className="markdown">
      <ReactMarkdown remarkPlugins={PLUGINS} components={PARTS}>
        {plain(text)}
      </ReactMarkdown>
    </div>
  )
})

const PARTS: Components = {
  a: WebLink,
  // A picture would tell its server who reads this, and when.
  img: ({ alt, src }) => (
    <span className="text-subtle">
      [picture{alt ? `: ${alt}` : ''}
      {typeof src === 'string' && hostOf(src) ? `, at ${hostOf(src)}` : ''}]
    </span>
  ),
  input: ({ checked }) => <input type="checkbox" disabled checked={checked === true} aria-label={checked ? 'done' : 'to do'} />,
  // The page has its own headings.
  h1: ({ children }) => <p className="heading">{children}</p>,
  h2: ({ children }) => <p className="heading">{children}</p>,
  h3: ({ children }) => <p className="heading">{children}</p>,
  h4: ({ children }) => <p className="heading">{children}</p>,
  h5: ({ children }) => <p className="heading">{children}</p>,
  h6: ({ children }) => <p className="heading">{children}</p>,
}

/** Says where it leads, whatever its text says. What does not lead to the web is no link. */
function WebLink({ href, children }: ComponentProps<'a'>) {
  const host = href === undefined ? undefined : hostOf(href)
  if (!host) return <span>{children}</span>
  return (
    <>
      <a href={href} target="_blank" rel="noopener noreferrer nofollow" className="text-accent underline">
        {children}
      </a>
      {children !== href && <span className="text-subtle"> ({visible(host)})</span>}
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
