import type { Auth } from './auth.ts'
import { Connection, type ConnectionState } from './connection.ts'
import { checkId, checkStatus } from './data.ts'
import { type Guest, newEndpoint } from './endpoint.ts'
import type { Credentials, Environment } from './environment.ts'
import { invalid, type RollcallError } from './error.ts'
import { parts } from './parts.ts'
import { Presence } from './presence.ts'
import { newRoom, type Room, type RoomOptions } from './room.ts'
import { type Readable, Store } from './store.ts'
import type { Share } from './stream.ts'
import type { TransportOption } from './transport.ts'
import { checkUsers, maxWatched, nobodyOnline, type Online, watch } from './window.ts'
import type { OnlineUsers } from './windows.ts'

export interface ClientOptions {
  /** Where the server is: `https://presence.example.com`; default: where the page came from. */
  readonly url?: string
  /** A token, an async function that returns one, or nothing for guests and cookies. */
  readonly auth?: Auth
  /** Who to be on `rollcall dev`; ignored where there is a token. */
  readonly guest?: Guest
  /** Default `auto`: WebSocket, and SSE where that does not get through. */
  readonly transport?: TransportOption
  /**
   * One connection for all tabs of this browser: `shareTabs()` of `@rollcall/client/shared`. Left out, that
   * is so for event streams on HTTP/1.1; with false or null each tab has its own.
   */
  readonly share?: Share | null | false
  /** `include` sends cookies to another origin. Default `same-origin`. */
  readonly credentials?: Credentials
  /** Default 10 s. */
  readonly connectTimeoutMs?: number
}

/** One connection to one server, shared by all rooms that are entered through it. */
export interface Client {
  /** initial, connecting, connected, reconnecting or disconnected. */
  readonly connection: Readable<ConnectionState>
  /** The error that ended the connection for good, or null. */
  readonly error: RollcallError | null
  /** Enters a room. The first entry opens the connection, the last `leave` closes it. */
  enter(room: string, options?: RoomOptions): Room
  /** Who of these users (at most 200 in all) is online, in any room. Open until closed. */
  online(users: readonly string[]): Online
  /** Leaves every room and closes the connection, for good. */
  close(): void
}

export function createClient(options: ClientOptions, environment: Environment): Client {
  const { url = '', auth, guest, transport = 'auto', share, credentials = 'same-origin' } = options
  if (guest) checkId(guest.user, 'guest.user')
  const connection = new Connection({
    environment,
    endpoint: newEndpoint(url, environment.origin),
    auth,
    guest: guest ?? null,
    transport,
    share,
    credentials,
    connectTimeoutMs: options.connectTimeoutMs ?? 10_000,
  })
  const { rooms } = connection
  /** Closes what is open: rooms, and who is watched beside them. */
  const opened = new Set<() => void>()
  let starting = false
  let closed = false

  const check = () => {
    if (closed) throw invalid('the client has been closed', 'closed')
  }

  /** Opens the connection, a moment later, so that rooms entered together are opened together. */
  const wake = () => {
    if (starting) return
    starting = true
    Promise.resolve().then(() => {
      starting = false
      if (opened.size > 0 && !connection.isWanted) connection.start()
    })
  }

  /** Closes the connection, if nobody needs it. */
  const rest = () => {
    if (opened.size === 0) connection.stop(closed ? 'disconnected' : 'initial')
  }

  return {
    connection: connection.state,

    get error() {
      return connection.error
    },

    enter(room, options = {}) {
      check()
      checkId(room, 'room')
      const { data, status, observe = false } = options
      checkStatus(status)
      const presence = rooms.get(room) ?? new Presence(room, observe, connection)
      // Checked before anything is entered: a call that throws leaves nothing behind.
      if (data !== undefined && !observe) presence.set(data, false)
      if (status !== undefined) presence.desired.setStatus(status)
      rooms.set(room, presence)
      presence.entries++
      const entry = newRoom(presence, () => {
        opened.delete(leave)
        // Only the last entry leaves the room.
        if (--presence.entries > 0) return
        rooms.delete(room)
        // Before anybody hears of it, who may enter anew.
        if (!presence.ended) connection.leave(room)
        presence.close()
        rest()
      })
      const { leave } = entry
      opened.add(leave)
      if (presence.want(observe)) connection.join([presence], false)
      else presence.changed()
      wake()
      return entry
    },

    online(users) {
      check()
      const set = checkUsers(users, maxWatched)
      const { report } = environment
      const store = new Store(nobodyOnline, report)
      const withUsers = (fn: (users: OnlineUsers) => void) =>
        parts.windows.use(({ newOnline }) => {
          connection.online ??= newOnline(connection)
          fn(connection.online)
        }, report)
      const online = watch(store, opened, withUsers, (users) => users.open(set, store), rest)
      wake()
      return online
    },

    close() {
      if (closed) return
      closed = true
      for (const close of opened) close()
      connection.stop('disconnected')
    },
  }
}
