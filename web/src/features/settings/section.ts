// The sections of the settings, as addresses name them.

export const SECTIONS = ['profile', 'tokens', 'appearance'] as const
export type Section = (typeof SECTIONS)[number]

export const SECTION_WORDS: Record<Section, string> = { profile: 'Profile', tokens: 'Tokens', appearance: 'Appearance' }

export function asSection(word: string): Section | undefined {
  return SECTIONS.find((section) => section === word)
}
