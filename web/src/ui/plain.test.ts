import { describe, expect, test } from 'vitest'
import { nameOf, oneLine, plain, visible } from './plain'

describe('text from outside', () => {
  test.each([
    ['a\u202etxt.exe', 'a⟨U+202E⟩txt.exe'],
    ['pay\u200bpal', 'pay⟨U+200B⟩pal'],
    ['\ufeffstart', '⟨U+FEFF⟩start'],
    ['ring\u0007, null\u0000, delete\u007f', 'ring␇, null␀, delete␡'],
    ['tag\u{e0041}', 'tag⟨U+E0041⟩'],
    ['blank\u3164', 'blank⟨U+3164⟩'],
    ['a line\u2028another', 'a line⟨U+2028⟩another'],
    ['back\b', 'back␈'],
  ])('shows what would not be seen: %j', (given, shown) => {
    expect(visible(given)).toBe(shown)
  })

  test('keeps what hides nothing', () => {
    const family = '👩\u200d👩\u200d👧 ❤️ é naïve 日本語\n\tindented'
    expect(visible(family)).toBe(family)
  })

  test('cannot pass a mark off as a joined emoji', () => {
    expect(visible('a\u200db')).toBe('a⟨U+200D⟩b')
    expect(visible('a\ue000b')).toBe('a⟨U+E000⟩b')
  })

  test('leaves no line break in a name', () => {
    expect(nameOf('src/a\n\u001b[2Kb.rs')).toBe('src/a␊␛[2Kb.rs')
  })

  test('takes colours and titles of a terminal out of prose', () => {
    expect(plain('\u001b[31mred\u001b[0m \u001b]0;title\u0007text\r\nnext')).toBe('red text\nnext')
    expect(oneLine('  two\n lines\u202e ', 80)).toBe('two lines⟨U+202E⟩')
  })
})
