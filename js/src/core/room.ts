import { checkJson, checkSize } from './data.ts'
import { invalid } from './error.ts'
import type { Status } from './member.ts'
import type { RosterPage } from './page.ts'
import type { Presence, RoomEvents, RoomStores } from './presence.ts'
import type { SignalOptions, Signals } from './signals.ts'
import { type Readable, Store } from './store.ts'
import {
  type Contacts,
  checkUsers,
  emptyPage,
  maxContacts,
  nobody,
  type Page,
  type PageOptions,
  watch,
} from './window.ts'

export interface RoomOptions {
  /** Small JSON that others see: untrusted there, at most 1 KiB. */
  readonly data?: object
  /** Fixes the status; left out, it follows the person at the page (active, idle, away). */
  readonly status?: Status
  /** See without being seen or counted. */
  readonly observe?: boolean
}

/**
 * One entry into a room. Several entries of one client into the same room share the lease and the
 * stores; the room is left with the last of them.
 */
export class Room implements RoomStores {
  readonly id: string
  readonly self: RoomStores['self']
  readonly others: RoomStores['others']
  readonly members: RoomStores['members']
  readonly sample: RoomStores['sample']
  readonly count: RoomStores['count']
  readonly data: RoomStores['data']
  readonly mode: RoomStores['mode']
  readonly connection: RoomStores['connection']
  readonly health: RoomStores['health']
  readonly #presence: Presence
  readonly #release: () => void
  readonly #stops = new Set<() => void>()
  #left = false

  /** @internal Made by `client.enter`. */
  constructor(presence: Presence, release: () => void) {
    this.id = presence.room
    this.self = presence.self
    this.others = presence.others
    this.members = presence.members
    this.sample = presence.sample
    this.count = presence.count
    this.data = presence.data
    this.mode = presence.mode
    this.connection = presence.connection
    this.health = presence.health
    this.#presence = presence
    this.#release = release
  }

  /**
   * Merges `data` into ours, key by key; `replace` sets the whole. May be called as often as you
   * like: at most ten a second are sent, and the newest always is. Throws on what JSON cannot carry
   * (NaN, Infinity, functions) and if the whole is over 1 KiB.
   */
  set(data: object, options: { readonly replace?: boolean } = {}): void {
    this.#check()
    if (this.#presence.desired.observe) throw invalid('an observer has no data to set')
    this.#presence.set(data, options.replace === true)
  }

  /** Fixes our status; null lets it follow the person at the page again. */
  setStatus(status: Status | null): void {
    this.#check()
    this.#presence.desired.setStatus(status)
    this.#presence.statusChanged()
  }

  /**
   * Says something of short life: a cursor, a selection. The newest of each kind counts, at most
   * twenty a second are sent, and null ends it. Throws on what JSON cannot carry, and over 1 KiB.
   */
  signal(kind: string, value: unknown, options: SignalOptions = {}): void {
    this.#check()
    if (this.#presence.desired.observe) throw invalid('an observer has no signals')
    if (typeof kind !== 'string' || kind === '') throw invalid('a kind must be a non-empty string')
    const data = checkJson(value, kind)
    checkSize(data, kind)
    this.#presence.withSignals((signals) => signals.set(kind, data, options))
  }

  /** What others signal, by connection: another tab of ours is there too, this one is not. */
  signals(kind: string): Readable<Signals> {
    return this.#presence.signalsOf(kind)
  }

  /**
   * Call it at each key: others see `typing` until three seconds after the last one. Said at most once
   * a second; `false` ends it at once, as when the message is sent.
   */
  typing(on = true): void {
    this.#check()
    if (!this.#presence.desired.observe) this.#presence.withSignals((signals) => signals.typing(on))
  }

  /** A window on the roster, for rooms too large to name everyone. Open until closed, or the room is left. */
  page(options: PageOptions = {}): Page {
    this.#check()
    const { limit } = options
    if (limit !== undefined && !(Number.isInteger(limit) && limit >= 1 && limit <= 200)) {
      throw invalid(`limit must be 1 to 200, not ${limit}`)
    }
    const store = new Store(emptyPage, this.#presence.environment.report)
    let page: RosterPage | null = null
    const opened = watch(store, this.#stops, (open) =>
      this.#presence.withWindows((windows) =>
        open(() => {
          const opened = windows.page(options, store)
          page = opened
          return () => {
            page = null
            windows.closePage(opened)
          }
        }),
      ),
    )
    return Object.assign(opened, {
      next: () => this.#presence.withWindows(() => page?.next()),
      more: () => this.#presence.withWindows(() => page?.more()),
    })
  }

  /** Which of these users are here, and how, in rooms of any size. Open until closed, or the room is left. */
  contacts(users: readonly string[]): Contacts {
    this.#check()
    const set = checkUsers(users, maxContacts)
    const store = new Store(nobody, this.#presence.environment.report)
    return watch(store, this.#stops, (open) =>
      this.#presence.withWindows((windows) => open(() => windows.contacts(set, store))),
    )
  }

  /** Listens until the returned function is called or the room is left. */
  on<K extends keyof RoomEvents>(type: K, fn: (event: RoomEvents[K]) => void): () => void {
    const off = this.#presence.events.on(type, fn)
    const stop = () => {
      off()
      this.#stops.delete(stop)
    }
    this.#stops.add(stop)
    return stop
  }

  /** Leaves: others know at once. Calling it again does nothing. */
  leave(): void {
    if (this.#left) return
    this.#left = true
    for (const stop of [...this.#stops]) stop()
    this.#release()
  }

  #check(): void {
    if (this.#left) throw invalid(`room ${this.id} has been left`, 'closed')
  }
}
