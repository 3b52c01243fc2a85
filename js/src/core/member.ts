/** A JSON value, as it travels. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/** A JSON object: the shape of `data` and `info`. */
export type JsonObject = { readonly [key: string]: Json }

export type Status = 'active' | 'idle' | 'away'

/** Why a member left; null when the leave was found out from a snapshot, which tells no reasons. */
export type LeaveReason = 'left' | 'closed' | 'expired' | 'kicked' | 'revoked'

/** A user with at least one live lease in the room: listed once, whatever the number of tabs. */
export interface Member {
  readonly user: string
  /** Public profile from the token: trusted. */
  readonly info: JsonObject
  readonly status: Status
  /** How many connections (tabs, devices) this user has in the room. */
  readonly connections: number
  /** When the member joined, in Unix milliseconds by the server's clock. */
  readonly since: number
  /** Set by the client: untrusted. Render it as text only. */
  readonly data: JsonObject
  /** Not in the newest snapshot of a server that has just lost its memory: may be on the way back. */
  readonly stale?: true
}

export function isStatus(value: unknown): value is Status {
  return value === 'active' || value === 'idle' || value === 'away'
}

/** The name to show and to sort by: `info.name`, else the user id. */
export function nameOf(member: Pick<Member, 'user' | 'info'>): string {
  const { name } = member.info
  return typeof name === 'string' && name.trim() !== '' ? name : member.user
}

const collator = new Intl.Collator(undefined, { sensitivity: 'base', numeric: true })

/** Lists are ordered by name, then id, which no two share: an order that no change of status or data disturbs. */
export function compareMembers(a: Member, b: Member): number {
  return collator.compare(nameOf(a), nameOf(b)) || (a.user < b.user ? -1 : 1)
}

/** `before` if `after` has the same members in the same order: a list that did not change is the same. */
export function sameList(before: readonly Member[], after: readonly Member[]): readonly Member[] {
  return after.length === before.length && after.every((member, i) => member === before[i]) ? before : after
}

/** Deep equality of JSON, of which a member is some: an unchanged one keeps its identity. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (!isObject(a) || !isObject(b) || Array.isArray(a) !== Array.isArray(b)) return false
  const keys = Object.keys(a)
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && sameJson(a[key], b[key]))
  )
}

function isObject(value: unknown): value is { readonly [key: string]: unknown } {
  return typeof value === 'object' && value !== null
}
