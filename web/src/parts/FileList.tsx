import { useVirtualizer } from '@tanstack/react-virtual'
import { useRef } from 'react'
import type { ChangedFile } from '../live/facts'
import { Counts } from '../ui/Counts'
import { nameOf } from '../ui/plain'

const ROW_PX = 28
const OVERSCAN = 10

type Props = { files: readonly ChangedFile[]; chosen: ChangedFile | undefined; onChoose: (path: string) => void }

/** The files that are different; only those in sight are in the page, for an agent may change thousands. */
export function FileList({ files, chosen, onChoose }: Props) {
  const box = useRef<HTMLDivElement>(null)
  // oxlint-disable-next-line react/incompatible-library -- nothing here is memoised by a compiler
  const list = useVirtualizer({
    count: files.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    getItemKey: (index) => files[index]?.path ?? index,
    overscan: OVERSCAN,
  })
  const shown = list.getVirtualItems()
  return (
    <div ref={box} className="max-h-[35%] shrink-0 overflow-y-auto border-b border-line">
      <div className="relative" style={{ height: list.getTotalSize() }}>
        <ul
          aria-label="Changed files"
          className="absolute top-0 w-full"
          style={{ transform: `translateY(${shown[0]?.start ?? 0}px)` }}
        >
          {shown.map((item) => {
            const file = files[item.index]
            return (
              file && (
                <li key={item.key} data-index={item.index} ref={list.measureElement} aria-setsize={files.length} aria-posinset={item.index + 1}>
                  <button
                    type="button"
                    aria-current={file === chosen || undefined}
                    onClick={() => onChoose(file.path)}
                    className="flex min-h-7 w-full cursor-pointer items-center gap-3 px-3 text-left text-xs hover:bg-raised aria-[current]:bg-sunken"
                  >
                    <span className="min-w-0 flex-1 font-mono break-all">{nameOf(file.path)}</span>
                    <span className="text-subtle">{nameOf(file.change)}</span>
                    <Counts added={file.added} removed={file.removed} />
                  </button>
                </li>
              )
            )
          })}
        </ul>
      </div>
    </div>
  )
}
