export function ComparePage({ a, b }: { a: string | undefined; b: string | undefined }) {
  return <p>{a} {b}</p>
}
