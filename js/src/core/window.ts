import { checkId } from './data.ts'
import { invalid, type RollcallError } from './error.ts'
import type { Member, Status } from './member.ts'
import type { Readable, Store } from './store.ts'

/*
 * What is shown of a room, or of people anywhere, beside the roster: pages, contacts, who is online.
 * Only their shapes are here; the code that keeps them current is fetched with the first of them.
 */

export interface PageState {
  /** Newest join first. A member that did not change is the same object. */
  readonly members: readonly Member[]
  /** Null if these are the last. */
  readonly nextCursor: string | null
  /** How many are in the room. */
  readonly count: number
  /** Asked for, not yet here. */
  readonly loading: boolean
  /** Why the server will not show it, or null. */
  readonly error: RollcallError | null
}

export interface PageOptions {
  /** Members a step: 1-200, default 50. */
  readonly limit?: number
  /** Where to begin, from the `nextCursor` of a page; left out: at the newest. */
  readonly cursor?: string | null
}

/** A window on the roster, kept current while it is open. */
export interface Page extends Readable<PageState> {
  /** Moves on to the members after these. Nothing happens on the last page, and while one is loading. */
  next(): void
  /** Shows the next members too. At most four windows of 200 are open on one connection. */
  more(): void
  close(): void
}

/** A store that the server keeps current until it is closed. */
export interface Watch<T> extends Readable<T> {
  close(): void
}

/** Who of those asked for is here, by name. */
export type Contacts = Watch<readonly Member[]>
/** Who of those asked for is anywhere, and how; whoever is not in it is offline. */
export type Online = Watch<ReadonlyMap<string, Status>>

export const emptyPage: PageState = { members: [], nextCursor: null, count: 0, loading: true, error: null }
export const nobody: readonly Member[] = []
export const nobodyOnline: ReadonlyMap<string, Status> = new Map()

/** How many users may be watched over all rooms; as contacts, where the server allows it. */
export const maxWatched = 200
export const maxContacts = 1_000

/** The users as a set; throws on what is no id, and on more than `limit`. */
export function checkUsers(users: readonly string[], limit: number): ReadonlySet<string> {
  const set = new Set(users.map((user) => checkId(user, 'user')))
  if (set.size > limit) throw tooMany(set.size, limit)
  return set
}

export function tooMany(size: number, limit: number): RollcallError {
  return invalid(`${size} users are watched; the limit is ${limit}`, 'too_large')
}

/**
 * A store that is open until it is closed, or one of `stops` with all others. Its code may still be on the way:
 * `use` hands it over when it is here, and `open` begins, unless it was closed before.
 */
export function watch<T, P>(
  store: Store<T>,
  stops: Set<() => void>,
  use: (fn: (part: P) => void) => void,
  open: (part: P) => { close(): void },
  closed?: () => void,
): Watch<T> {
  let opened: { close(): void } | undefined
  const close = () => {
    if (!stops.delete(close)) return
    opened?.close()
    closed?.()
  }
  stops.add(close)
  use((part) => {
    if (stops.has(close)) opened = open(part)
  })
  return Object.assign(store, { close })
}
