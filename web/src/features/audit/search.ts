// What the page of the audit trail keeps in its address.

export const FIELDS = ['actor', 'action', 'entity_type', 'entity_id'] as const
export type Field = (typeof FIELDS)[number]
export type AuditSearch = { [field in Field]?: string }

export function asAuditSearch(search: Record<string, unknown>): AuditSearch {
  return Object.fromEntries(
    FIELDS.flatMap((field) => {
      const value = search[field]
      return (typeof value === 'string' && value !== '') || typeof value === 'number' ? [[field, String(value)]] : []
    }),
  )
}
