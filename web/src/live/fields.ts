// Reads event data, which is foreign: it may have any shape, so nothing here relies on one.

export function field(data: unknown, name: string): unknown {
  const isObject = typeof data === 'object' && data !== null && Object.hasOwn(data, name)
  return isObject ? (data as Record<string, unknown>)[name] : undefined
}

/** A text with something in it. */
export function text(data: unknown, name: string): string | undefined {
  const value = field(data, name)
  return typeof value === 'string' && value.trim() !== '' ? value : undefined
}

export function number(data: unknown, name: string): number | undefined {
  const value = field(data, name)
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}

export function flag(data: unknown, name: string): boolean | undefined {
  const value = field(data, name)
  return typeof value === 'boolean' ? value : undefined
}

export function array(data: unknown, name: string): readonly unknown[] {
  const value = field(data, name)
  return Array.isArray(value) ? value : []
}
