import type { Client, ClientOptions } from './core/client.ts'
import type { Environment, Page } from './core/environment.ts'
import type { LeaveReason, Status } from './core/member.ts'
import { FakeLink } from './testing/link.ts'
import type { FakeConnection, FakeOptions } from './testing/server.ts'

/*
 * A Rollcall in memory, for the tests of applications: no port, no delay, the same every time. It
 * decides as the real one does (once per user, versions, close grace, leases, modes) with the timers
 * and the clock of the platform, so that fake timers work; install them before it is made.
 */

export interface FakeServerOptions {
  /** Default 30,000. */
  readonly leaseMs?: number
  /** Default 9,000. */
  readonly beatMs?: number
  /** How long a closed tab is still here. Default 1,000. */
  readonly graceMs?: number
  /** A room with more members than this names nobody. Default 200. */
  readonly countsAbove?: number
  /** ... until it has fewer than this. Default 150. */
  readonly countsBelow?: number
}

export interface FakeMemberOptions {
  /** Default `{ name: user }`. */
  readonly info?: object
  readonly data?: object
  readonly status?: Status
}

/** A message of a client as it came, with the connection that said it. */
export interface Said {
  readonly connection: string
  readonly type: string
  readonly [field: string]: unknown
}

/** One room of a fake server, and the others in it. */
export interface FakeRoom {
  /** Ids of the members, in order of the alphabet. */
  readonly users: readonly string[]
  readonly count: number
  /** The data of a member as the server has it. */
  data(user: string): unknown
  /** Somebody enters: one more connection of that user. */
  join(user: string, options?: FakeMemberOptions): void
  /** `n` users enter: `guest-1`, `guest-2`, ... */
  fill(n: number): void
  set(user: string, data: object, options?: { readonly replace?: boolean }): void
  setStatus(user: string, status: Status): void
  signal(user: string, kind: string, data: unknown, options?: { readonly ttlMs?: number }): void
  /** All connections of a user go, clients too. Default `left`. */
  leave(user: string, reason?: LeaveReason): void
}

export interface FakeRollcall {
  /** A client of this server, as this user. */
  client(user: string, options?: ClientOptions, page?: Page | null): Client
  /** For clients that are made elsewhere: `createClient(options, server.environment())`. */
  environment(page?: Page | null): Environment
  room(id: string): FakeRoom
  /** Everything that clients said, in order. */
  readonly said: readonly Said[]
  /** What callbacks of the application threw. */
  readonly errors: readonly unknown[]
  /** Cuts all links, as a lost network does: clients come back by themselves. */
  drop(): void
  /** Cuts all links and lets nobody in, until `up`. */
  down(): void
  up(): void
  /** Loses all memory, as a server without state does when it restarts. */
  restart(): void
  /** Stops its timers. */
  stop(): void
}

export function createFakeServer(options: FakeServerOptions = {}): FakeRollcall {
  const link = new FakeLink(options as FakeOptions)
  const { server } = link
  const rooms = new Map<string, FakeRoom>()
  return {
    client: (user, options, page) => link.client(user, options, page),
    environment: (page) => link.environment(page),
    room: (id) => {
      const room = rooms.get(id) ?? newRoom(link, id)
      rooms.set(id, room)
      return room
    },
    said: server.said,
    errors: link.errors,
    drop: () => cut(link),
    down: () => {
      link.http.down = true
      cut(link)
    },
    up: () => {
      link.http.down = false
    },
    restart: () => server.restart(),
    stop: () => server.stop(),
  }
}

function cut({ server }: FakeLink): void {
  for (const { port } of [...server.connections.values()]) port?.end(1006, null)
}

function newRoom({ server }: FakeLink, id: string): FakeRoom {
  const of = (user: string): FakeConnection[] =>
    [...server.connections.values()].filter((connection) => {
      return connection.user === user && connection.leases.get(id)?.observe === false
    })
  const newest = (user: string): FakeConnection => {
    const connection = of(user).at(-1)
    if (connection === undefined) throw new Error(`${user} is not in ${id}`)
    return connection
  }
  const join = (user: string, { info = { name: user }, data = {}, status = 'active' }: FakeMemberOptions) => {
    const silent = { send: () => {}, end: () => {}, pongs: () => true }
    server.join(server.open(user, info, null, silent), id, { data, status })
  }
  return {
    get users() {
      return [...server.room(id).members.keys()].sort()
    },
    get count() {
      return server.room(id).members.size
    },
    data: (user) => server.room(id).members.get(user)?.data,
    join: (user, options = {}) => join(user, options),
    fill: (n) => {
      const users = Array.from({ length: n }, (_, i) => `guest-${i + 1}`)
      server.fill(id, users)
    },
    set: (user, data, options = {}) => void server.set(newest(user), id, { data, ...options }),
    setStatus: (user, status) => void server.set(newest(user), id, { status }),
    signal: (user, kind, data, options = {}) => {
      server.signal(newest(user), id, { kind, data, ...options })
    },
    leave: (user, reason = 'left') => {
      for (const connection of of(user)) {
        if (reason === 'kicked') connection.port?.send([{ type: 'ended', room: id, reason }])
        server.leave(connection, id, reason)
      }
    },
  }
}
