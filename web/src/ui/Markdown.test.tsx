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
