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
import type { Windows } from './windows.ts'

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
export interface Room extends RoomStores {
  readonly id: string

  /**
   * Merges `data` into ours, key by key; `replace` sets the whole. May be called as often as you
   * like: at most ten a second are sent, and the newest always is. Throws on what JSON cannot carry
   * (NaN, Infinity, functions) and if the whole is over 1 KiB.
   */
  set(data: object, options?: { readonly replace?: boolean }): void

  /** Fixes our status; null lets it follow the person at the page again. */
  setStatus(status: Status | null): void

  /**
   * Says something of short life: a cursor, a selection. The newest of each kind counts, at most
   * twenty a second are sent, and null ends it. Throws on what JSON cannot carry, and over 1 KiB.
   */
  signal(kind: string, value: unknown, options?: SignalOptions): void

  /** What others signal, by connection: another tab of ours is there too, this one is not. */
  signals(kind: string): Readable<Signals>

  /**
   * Call it at each key: others see `typing` until three seconds after the last one. Said at most once
   * a second; `false` ends it at once, as when the message is sent.
   */
  typing(on?: boolean): void

  /** A window on the roster, for rooms too large to name everyone. Open until closed, or the room is left. */
  page(options?: PageOptions): Page

  /** Which of these users are here, and how, in rooms of any size. Open until closed, or the room is left. */
  contacts(users: readonly string[]): Contacts

  /** Listens until the returned function is called or the room is left. */
  on<K extends keyof RoomEvents>(type: K, fn: (event: RoomEvents[K]) => void): () => void

  /** Leaves: others know at once. Calling it again does nothing. */
  leave(): void
}

/** One more entry into the room of `presence`; `release` is told when it leaves. */
export function newRoom(presence: Presence, release: () => void): Room {
  const { room, desired, environment } = presence
  const stops = new Set<() => void>()
  let left = false

  const check = () => {
    if (left) throw invalid(`room ${room} has been left`, 'closed')
  }
  const checkMember = (what: string) => {
    check()
    if (desired.observe) throw invalid(`an observer has no ${what}`)
  }

  const withWindows = (fn: (windows: Windows) => void) => presence.use('windows', fn)

  return {
    id: room,
    ...presence.stores,

    set(data, { replace = false } = {}) {
      checkMember('data')
      presence.set(data, replace)
    },

    setStatus(status) {
      check()
      desired.setStatus(status)
      presence.changed()
    },

    signal(kind, value, options = {}) {
      checkMember('signals')
      if (typeof kind !== 'string' || kind === '') throw invalid('a kind must be a non-empty string')
      const data = checkJson(value, kind)
      checkSize(data, kind)
      presence.use('signals', (signals) => signals.set(kind, data, options))
    },

    signals: (kind) => presence.signalsOf(kind),

    typing(on = true) {
      check()
      if (!desired.observe) presence.use('signals', (signals) => signals.typing(on))
    },

    page(options = {}) {
      check()
      const { limit = 1 } = options
      if (!Number.isInteger(limit) || limit < 1 || limit > 200) {
        throw invalid(`limit must be 1 to 200, not ${limit}`)
      }
      const store = new Store(emptyPage, environment.report)
      let page: RosterPage | undefined
      const opened = watch(store, stops, withWindows, (windows) => {
        page = windows.page(options, store)
        return page
      })
      return Object.assign(opened, {
        next: () => withWindows(() => page?.next()),
        more: () => withWindows(() => page?.more()),
      })
    },

    contacts(users) {
      check()
      const set = checkUsers(users, maxContacts)
      const store = new Store(nobody, environment.report)
      return watch(store, stops, withWindows, (windows) => windows.contacts(set, store))
    },

    on(type, fn) {
      const off = presence.events.on(type, fn)
      const stop = () => {
        off()
        stops.delete(stop)
      }
      stops.add(stop)
      return stop
    },

    leave() {
      if (left) return
      left = true
      for (const stop of [...stops]) stop()
      release()
    },
  }
}
