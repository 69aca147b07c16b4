import { describe, expect, test } from 'vitest'
import { asSandboxSearch } from './search'

describe('the address of a sandbox', () => {
  test('says what is shown', () => {
    const search = { tab: 'files', kinds: 'tools', file: 'src/a.rs', event: 7, at: 9 }
    expect(asSandboxSearch(search)).toEqual(search)
  })

  test('is passed over where it makes no sense', () => {
    expect(asSandboxSearch({ tab: 'evil', kinds: 3, file: ['x'], event: -1, at: 'x' })).toEqual({})
  })

  test('takes a file that is called like a number', () => {
    expect(asSandboxSearch({ file: 2026 })).toEqual({ file: '2026' })
  })
})
