import { Button } from './Button'

type Props = { list: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown } }

/** The next page of a list, where there is one. */
export function More({ list }: Props) {
  if (!list.hasNextPage) return null
  return (
    <div className="p-3">
      <Button disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
        {list.isFetchingNextPage ? 'Loading…' : 'Show more'}
      </Button>
    </div>
  )
}
