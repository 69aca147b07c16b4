// Amounts in words.

/** Money as people write it; what is less than a cent is not nothing. */
export function usd(amount: number): string {
  if (amount > 0 && amount < 0.01) return '< $0.01'
  return `$${amount.toFixed(2)}`
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`
}
