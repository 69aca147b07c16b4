/** Lines added and removed. */
export function Counts({ added, removed }: { added: number | undefined; removed: number | undefined }) {
  return (
    <span className="font-mono whitespace-nowrap">
      <span className="text-ok">
        +{added ?? 0}
        <span className="sr-only"> lines added,</span>
      </span>{' '}
      <span className="text-bad">
        −{removed ?? 0}
        <span className="sr-only"> lines removed</span>
      </span>
    </span>
  )
}
