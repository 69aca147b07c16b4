import { render, screen } from '@testing-library/react'
import { describe, expect, test } from 'vitest'
import { Markdown } from './Markdown'

describe('markdown of an agent', () => {
  test('has lists, tables and code', () => {
    const { container } = render(<Markdown text={'# Done\n\n- [x] one\n- two\n\n| a |\n|---|\n| b |\n\n`x != y`'} />)
    expect(screen.getByLabelText('done')).toBeTruthy()
    expect(container.querySelectorAll('li')).toHaveLength(2)
    expect(screen.getByText('x != y').tagName).toBe('CODE')
    expect(container.querySelector('h1')).toBeNull()
  })

  test('has what GitHub adds, and shows the rest as it was written', () => {
    const { container } = render(
      <Markdown text={'~~old~~ https://a.example\n\n3. three\n4. four\n\n> said[^1]\n\n[^1]: by whom\n\n[named][x]\n\n> [x]: https://b.example/y'} />,
    )
    expect(container.querySelector('del')?.textContent).toBe('old')
    expect(container.querySelector('ol')?.start).toBe(3)
    expect(container.querySelector('blockquote p')?.textContent).toBe('said[1]')
    expect(screen.getByText('by whom')).toBeTruthy()
    expect(screen.getAllByRole('link').map((link) => link.getAttribute('href'))).toEqual(['https://a.example', 'https://b.example/y'])
    // Where the text says where it leads, that is not said again.
    expect(container.textContent).toContain('old https://a.examplethree')
  })

  test('has tables with their columns set as asked', () => {
    render(<Markdown text={'| a | b |\n|:-:|--:|\n| 1 | **2** |'} />)
    expect(screen.getAllByRole('columnheader').map((cell) => cell.style.textAlign)).toEqual(['center', 'right'])
    expect(screen.getAllByRole('cell').map((cell) => cell.innerHTML)).toEqual(['1', '<strong>2</strong>'])
  })

  test('keeps paragraphs in a list that is set apart, and none in one that is not', () => {
    const { container } = render(<Markdown text={'- one\n- two\n\ntext\n\n1. one\n\n2. two'} />)
    expect(container.querySelectorAll('ul p')).toHaveLength(0)
    expect(container.querySelectorAll('ol p')).toHaveLength(2)
  })

  test('shows what is nested without end', () => {
    const { container } = render(<Markdown text={`${'> '.repeat(500)}deep`} />)
    expect(container.querySelectorAll('blockquote').length).toBeLessThan(50)
    expect(container.textContent).toContain('deep')
  })

  test('runs nothing and fetches nothing', () => {
    const evil = [
      '<script>alert(1)</script><img src=x onerror=alert(1)><iframe src="https://evil.example"></iframe>',
      '![pixel](https://evil.example/pixel.png)',
      '[click](javascript:alert(1)) [data](data:text/html,x) [file](file:///etc/passwd)',
      '<style>*{display:none}</style>',
    ].join('\n\n')
    const { container } = render(<Markdown text={evil} />)
    expect(container.querySelectorAll('script, img, iframe, style, a, link, object, embed')).toHaveLength(0)
    expect(screen.getByText('[picture: pixel, at evil.example]')).toBeTruthy()
    // It is shown, so that nothing can be hidden in it.
    expect(container.textContent).toContain('<script>alert(1)</script><img src=x onerror=alert(1)>')
  })

  test('says where a link leads, whatever it is called', () => {
    render(<Markdown text="[https://good.example](https://evil.example/x)" />)
    const link = screen.getByRole('link')
    expect(link.getAttribute('rel')).toBe('noopener noreferrer nofollow')
    expect(link.parentElement?.textContent).toBe('https://good.example (evil.example)')
  })

  test('marks what cannot be seen', () => {
    const { container } = render(<Markdown text={'left \u202eright\u200b `co\u2066de`'} />)
    expect(container.textContent).toBe('left ⟨U+202E⟩right⟨U+200B⟩ co⟨U+2066⟩de')
  })
})
