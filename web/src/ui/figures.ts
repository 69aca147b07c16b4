// Numbers in words: tokens, money, bytes.

const MIB = 1024 ** 2
const GIB = 1024 ** 3

export function tokens(count: number): string {
  if (count < 1_000) return String(count)
  return count < 1_000_000 ? `${trim(count / 1_000)}k` : `${trim(count / 1_000_000)}M`
}

/** Cents, and smaller only where there would be nothing else to see. */
export function money(usd: number): string {
  return usd > 0 && usd < 0.01 ? `$${usd.toPrecision(1)}` : `$${usd.toFixed(2)}`
}

export function bytes(count: number): string {
  if (count < 1024) return `${count} B`
  if (count < MIB) return `${trim(count / 1024)} KiB`
  return count < GIB ? `${trim(count / MIB)} MiB` : `${trim(count / GIB)} GiB`
}

function trim(value: number): string {
  return value >= 100 ? String(Math.round(value)) : value.toFixed(1).replace(/\.0$/, '')
}
