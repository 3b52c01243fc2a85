import type { Connection } from './connection.ts'
import type { Environment } from './environment.ts'
import type { RollcallError } from './error.ts'
import { isRaw, type Raw, toMember } from './frame.ts'
import { compareMembers, isStatus, type Member, type Status, sameJson, sameList } from './member.ts'
import { type Ask, RosterPage } from './page.ts'
import type { Store } from './store.ts'
import { Watched } from './watched.ts'
import { maxContacts, maxWatched, nobodyOnline, type PageOptions, type PageState } from './window.ts'

/** The room that the windows are on. */
export interface WindowsHost {
  readonly room: string
  readonly environment: Environment
  ask: Ask
  fail(error: RollcallError): void
}

/** The pages and contacts of one room. */
export class Windows {
  readonly #host: WindowsHost
  readonly #room: string
  readonly #pages = new Set<RosterPage>()
  readonly #contacts: Watched<Member, readonly Member[]>
  #serial = 0

  constructor(host: WindowsHost) {
    const { room } = host
    this.#room = room
    this.#host = host
    this.#contacts = new Watched(
      {
        limit: maxContacts,
        read: (item) => {
          const member = toMember(item)
          return member === null ? null : [member.user, member]
        },
        keep: (before, after) => (before !== undefined && sameJson(before, after) ? before : after),
        show: (before, present) => sameList(before, [...present.values()].sort(compareMembers)),
      },
      {
        environment: host.environment,
        ask: (users) => host.ask({ type: 'contacts', room, users }),
        fail: (error) => host.fail(error),
      },
    )
  }

  page(options: PageOptions, store: Store<PageState>): RosterPage {
    const page = new RosterPage(
      this.#room,
      options,
      store,
      (message) => this.#host.ask(message),
      () => `p${++this.#serial}`,
      () => this.#pages.delete(page),
    )
    this.#pages.add(page)
    return page
  }

  contacts(users: ReadonlySet<string>, store: Store<readonly Member[]>): { close(): void } {
    return this.#contacts.open(users, store)
  }

  apply(type: 'page' | 'contacts', fields: Raw): void {
    if (type === 'contacts') this.#contacts.apply(fields)
    else for (const page of this.#pages) if (page.apply(fields)) return
  }

  renew(): void {
    for (const page of this.#pages) page.renew()
    this.#contacts.renew()
  }

  down(): void {
    for (const page of this.#pages) page.down()
    this.#contacts.down()
  }

  poke(): void {
    this.#contacts.poke()
  }

  /** We left: who watches closes its windows. */
  clear(): void {
    this.down()
  }
}

export type OnlineUsers = Watched<Status, ReadonlyMap<string, Status>>

/** Who is online, of those that the application watches over all rooms. */
export function newOnline(connection: Connection): OnlineUsers {
  const { environment } = connection.options
  return new Watched(
    {
      limit: maxWatched,
      read: (item) => {
        if (!isRaw(item)) return null
        const { user, status } = item
        return typeof user === 'string' && isStatus(status) ? [user, status] : null
      },
      keep: (_, after) => after,
      show: (before, present) => {
        const same = before.size === present.size && [...present].every(([user, s]) => before.get(user) === s)
        return same ? before : present.size === 0 ? nobodyOnline : present
      },
    },
    {
      environment,
      ask: (users) => connection.stream?.ask({ type: 'users', users }) ?? null,
      fail: environment.report,
    },
  )
}

export function ofRoom(host: WindowsHost): Windows {
  return new Windows(host)
}
