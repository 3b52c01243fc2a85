import type { RollcallError } from './error.ts'
import { natural, type Raw, toList, toMember, toMembers } from './frame.ts'
import { type Member, sameJson } from './member.ts'
import type { Store } from './store.ts'
import type { Answer, Message } from './stream.ts'
import type { PageOptions, PageState } from './window.ts'

/*
 * A window on the roster: one or more pages of the server, one after the other. When the end of one
 * moves, the next is opened again from there. A window that moves on has new pages under new ids, so
 * what is said late of the old ones finds nothing. Joins and leaves may be repeated, unknown, or come
 * in any order: a user is listed once, by the newest word.
 */

const maxLimit = 200

/** Sends now; null where there is nobody to tell yet: `renew` follows. */
export type Ask = (message: Message) => Promise<Answer> | null

/** One page of the server. */
interface Part {
  readonly id: string
  cursor: string | null
  limit: number
  members: readonly Member[]
  nextCursor: string | null
  /** Numbers the questions; only the answer to the last counts. */
  asked: number
  /** The stream knows it. */
  told: boolean
  loading: boolean
  /** What came since the last question: it may be newer than the answer. */
  early: Raw[]
}

export class RosterPage {
  readonly #ask: Ask
  readonly #room: string
  readonly #store: Store<PageState>
  readonly #newId: () => string
  readonly #closed: () => void
  readonly #step: number
  #parts: Part[] = []
  #count = 0
  #error: RollcallError | null = null

  constructor(
    room: string,
    options: PageOptions,
    store: Store<PageState>,
    ask: Ask,
    newId: () => string,
    closed: () => void,
  ) {
    this.#room = room
    this.#store = store
    this.#ask = ask
    this.#newId = newId
    this.#closed = closed
    this.#step = options.limit ?? 50
    this.#open(options.cursor ?? null)
  }

  next(): void {
    const cursor = this.#nextCursor()
    if (cursor === null || this.#loading()) return
    const old = this.#parts
    this.#parts = []
    this.#open(cursor)
    this.#closeParts(old)
  }

  more(): void {
    const last = this.#parts.at(-1)
    const cursor = this.#nextCursor()
    if (last === undefined || cursor === null || this.#loading()) return
    if (last.limit >= maxLimit) {
      this.#open(cursor)
      return
    }
    last.limit = Math.min(maxLimit, last.limit + this.#step)
    this.#load(last)
  }

  /** Shows nothing more; moving on does nothing from now on. */
  close(): void {
    this.#closeParts(this.#parts)
    this.#parts = []
    this.#closed()
  }

  /** There is a stream to ask, for what it does not know yet. */
  renew(): void {
    for (const part of this.#parts.filter(({ told }) => !told)) this.#load(part)
  }

  /** The next stream has no pages. What is shown stays; its answers will not come. */
  down(): void {
    for (const part of this.#parts) {
      part.asked++
      part.told = false
    }
  }

  /** Takes a `page` frame in; false if it is of another page. */
  apply(fields: Raw): boolean {
    const part = this.#parts.find(({ id }) => id === fields.page)
    if (part === undefined) return false
    if (part.loading) part.early.push(fields)
    else {
      this.#take(part, fields)
      this.#follow()
    }
    this.#show()
    return true
  }

  #open(cursor: string | null): void {
    const part: Part = {
      id: this.#newId(),
      cursor,
      limit: this.#step,
      members: [],
      nextCursor: null,
      asked: 0,
      told: false,
      loading: false,
      early: [],
    }
    this.#parts.push(part)
    this.#load(part)
  }

  #load(part: Part): void {
    const { id, cursor, limit } = part
    const asked = ++part.asked
    part.loading = true
    part.early = []
    this.#error = null
    const at = cursor === null ? {} : { cursor }
    const answer = this.#ask({ type: 'page', room: this.#room, page: id, ...at, limit })
    part.told = answer !== null
    void answer?.then((answer) => {
      if (asked === part.asked && this.#parts.includes(part)) this.#answered(part, answer)
    })
    this.#show()
  }

  #answered(part: Part, answer: Answer): void {
    if (!answer.ok && answer.error.code === 'closed') return
    part.loading = false
    if (answer.ok) {
      this.#take(part, { members: [], ...answer.fields })
      for (const fields of part.early) this.#take(part, fields)
      this.#follow()
    } else {
      this.#refused(part, answer.error)
    }
    part.early = []
    this.#show()
  }

  /** What was shown stays, without the part that cannot be had: `more` may ask for it again. */
  #refused(part: Part, error: RollcallError): void {
    this.#error = error
    const at = this.#parts.indexOf(part)
    if (at > 0) this.#closeParts(this.#parts.splice(at))
  }

  #take(part: Part, fields: Raw): void {
    const whole = Array.isArray(fields.members)
    const before = new Map(part.members.map((member) => [member.user, member]))
    const members = new Map<string, Member>()
    for (const member of whole ? toMembers(fields.members) : part.members) members.set(member.user, member)
    for (const item of toList(fields.leave)) members.delete(userOf(item))
    for (const item of toList(fields.update)) {
      const member = toMember(item)
      if (member !== null && members.has(member.user)) members.set(member.user, member)
    }
    for (const [user, member] of members) {
      const known = before.get(user)
      if (known !== undefined && sameJson(known, member)) members.set(user, known)
    }
    const list = [...members.values()]
    for (const member of toMembers(fields.join)) insert(list, member)
    part.members = list
    const { nextCursor } = fields
    if (nextCursor === null || typeof nextCursor === 'string') part.nextCursor = nextCursor
    this.#count = natural(fields.count) ?? this.#count
  }

  /** Each page begins where the one before it ends. */
  #follow(): void {
    for (const [i, part] of this.#parts.entries()) {
      const next = this.#parts[i + 1]
      if (next === undefined || part.loading || next.cursor === part.nextCursor) continue
      if (part.nextCursor === null) {
        this.#closeParts(this.#parts.splice(i + 1))
        return
      }
      next.cursor = part.nextCursor
      this.#load(next)
    }
  }

  #nextCursor(): string | null {
    return this.#parts.at(-1)?.nextCursor ?? null
  }

  #loading(): boolean {
    return this.#parts.some(({ loading }) => loading)
  }

  #show(): void {
    const before = this.#store.get()
    // Whoever moved from one part to another may be in both for a moment: the first has the newest word.
    const byUser = new Map<string, Member>()
    for (const { members } of this.#parts) {
      for (const member of members) if (!byUser.has(member.user)) byUser.set(member.user, member)
    }
    const list = [...byUser.values()]
    const loading = this.#loading()
    // Until the members of a window are here, those of the window before are shown.
    const waits = loading && list.length === 0
    const same = list.length === before.members.length && list.every((m, i) => m === before.members[i])
    const next: PageState = {
      members: waits || same ? before.members : list,
      nextCursor: waits ? before.nextCursor : this.#nextCursor(),
      count: this.#count,
      loading,
      error: this.#error,
    }
    if ((Object.keys(next) as (keyof PageState)[]).some((key) => next[key] !== before[key]))
      this.#store.set(next)
  }

  #closeParts(parts: readonly Part[]): void {
    for (const { id } of parts) void this.#ask({ type: 'closePage', room: this.#room, page: id })
  }
}

/**
 * Puts a member where its join belongs, newest first; one that is listed already is moved there. Those of
 * one moment come in the order of the page.
 */
function insert(list: Member[], member: Member): void {
  const at = list.findIndex(({ user }) => user === member.user)
  const known = at === -1 ? undefined : list[at]
  if (known !== undefined && known.since === member.since) {
    if (!sameJson(known, member)) list[at] = member
    return
  }
  if (known !== undefined) list.splice(at, 1)
  const place = list.findIndex(({ since }) => since < member.since)
  list.splice(place === -1 ? list.length : place, 0, member)
}

/** Who left: an id, or an object that names one. */
function userOf(item: unknown): string {
  const user = typeof item === 'object' && item !== null ? (item as { user?: unknown }).user : item
  return typeof user === 'string' ? user : ''
}
