// What the row of a call says of it.

import { field, flag, number, text } from '../../live/fields'
import type { ToolRow } from '../../live/rows'

/** What the command wrote, or what was told of it when that is not there. */
export function outputOf(row: ToolRow): string {
  if (row.output.text !== '') return row.output.text
  const response = field(row.done?.data, 'tool_response')
  const told = [text(response, 'stdout'), text(response, 'stderr')].filter((part) => part !== undefined).join('\n')
  return told !== '' ? told : (text(row.result?.data, 'result') ?? '')
}

export function isRunning(row: ToolRow): boolean {
  return row.done === undefined && row.ended === undefined && row.result === undefined
}

export function isFailed(row: ToolRow): boolean {
  const code = number(row.done?.data, 'exit_code') ?? number(row.ended?.data, 'exit_code')
  return flag(row.done?.data, 'is_error') === true || flag(row.result?.data, 'is_error') === true || (code ?? 0) !== 0
}
