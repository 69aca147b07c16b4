import { Link } from '@tanstack/react-router'
import { Page } from '../../ui/Page'
import { Empty } from '../../ui/panels'
import { Appearance } from './Appearance'
import { Profile } from './Profile'
import { asSection, SECTIONS, SECTION_WORDS } from './section'
import { Tokens } from './Tokens'

export function SettingsPage({ section: word }: { section: string }) {
  const section = asSection(word)
  return (
    <Page title={section ? `Settings: ${SECTION_WORDS[section]}` : 'Settings'}>
      <div className="flex flex-col md:flex-row">
        <nav aria-label="Sections of the settings" className="flex gap-1 border-b border-line p-2 md:w-44 md:flex-col md:border-b-0">
          {SECTIONS.map((one) => (
            <Link
              key={one}
              to="/settings/$section"
              params={{ section: one }}
              className="flex min-h-8 items-center rounded px-2 text-muted hover:bg-raised hover:text-fg aria-[current=page]:bg-sunken aria-[current=page]:font-medium aria-[current=page]:text-fg"
            >
              {SECTION_WORDS[one]}
            </Link>
          ))}
        </nav>
        <div className="flex min-w-0 max-w-180 flex-1 flex-col gap-4 p-4">
          {section === 'profile' && <Profile />}
          {section === 'tokens' && <Tokens />}
          {section === 'appearance' && <Appearance />}
          {section === undefined && <Empty title="There is no such section." />}
        </div>
      </div>
    </Page>
  )
}
