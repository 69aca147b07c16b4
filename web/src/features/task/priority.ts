import type { Priority } from '../../api/types'

/** A record, so that a priority which is new in the document fails the type check until it is listed. */
const ALL: Record<Priority, true> = { CRITICAL: true, HIGH: true, MEDIUM: true, LOW: true }

export const PRIORITIES = Object.keys(ALL) as Priority[]
