// Times and durations in words.

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
const CLOCK_SECONDS = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium', hourCycle: 'h23' })
const DAY_CLOCK = new Intl.DateTimeFormat(undefined, {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
})
const WHOLE = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long', hourCycle: 'h23' })

export const clock = (at: Date) => CLOCK.format(at)
export const clockSeconds = onceASecond(CLOCK_SECONDS)
export const whole = onceASecond(WHOLE)

/** Many things happen in one second, and it takes long to write one down. */
function onceASecond(format: Intl.DateTimeFormat): (at: Date) => string {
  let [known, words] = [Number.NaN, '']
  return (at) => {
    const second = Math.floor(at.getTime() / 1000)
    if (second !== known) [known, words] = [second, format.format(at)]
    return words
  }
}

/** Relative up to an hour, then the local clock, with the day when it is another one. */
export function ago(at: Date, now: Date): string {
  const seconds = Math.max(0, Math.round((now.getTime() - at.getTime()) / 1000))
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`
  return at.toDateString() === now.toDateString() ? clock(at) : DAY_CLOCK.format(at)
}

export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000
  if (seconds > 0 && seconds < 0.1) return `${Math.ceil(ms)} ms`
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 60) return `${Math.round(seconds)} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
