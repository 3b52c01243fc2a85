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
export class Client {
  /** initial, connecting, connected, reconnecting or disconnected. */
  readonly connection: Readable<ConnectionState>
  readonly #connection: Connection
  /** Closes what is open: rooms, and who is watched beside them. */
  readonly #open = new Set<() => void>()
  #starting = false
  #closed = false

  constructor(options: ClientOptions, environment: Environment) {
    const { url = '', auth, guest, transport = 'auto', share, credentials = 'same-origin' } = options
    if (guest) checkId(guest.user, 'guest.user')
    this.#connection = new Connection({
      environment,
      endpoint: newEndpoint(url, environment.origin),
      auth,
      guest: guest ?? null,
      transport,
      share,
      credentials,
      connectTimeoutMs: options.connectTimeoutMs ?? 10_000,
    })
    this.connection = this.#connection.state
  }

  /** The error that ended the connection for good, or null. */
  get error(): RollcallError | null {
    return this.#connection.error
  }

  /** Enters a room. The first entry opens the connection, the last `leave` closes it. */
  enter(room: string, options: RoomOptions = {}): Room {
    this.#check()
    checkId(room, 'room')
    checkStatus(options.status)
    const { data, status, observe = false } = options
    const { rooms } = this.#connection
    const presence = rooms.get(room) ?? new Presence(room, observe, this.#connection)
    // Checked before anything is entered: a call that throws leaves nothing behind.
    if (data !== undefined && !observe) presence.set(data, false)
    if (status !== undefined) presence.desired.setStatus(status)
    rooms.set(room, presence)
    presence.entries++
    const entry = newRoom(presence, () => {
      this.#open.delete(entry.leave)
      this.#leave(presence)
    })
    this.#open.add(entry.leave)
    if (presence.want(observe)) this.#connection.join([presence], false)
    else presence.changed()
    this.#wake()
    return entry
  }

  /** Who of these users (at most 200 in all) is online, in any room. Open until closed. */
  online(users: readonly string[]): Online {
    this.#check()
    const set = checkUsers(users, maxWatched)
    const connection = this.#connection
    const { report } = connection.options.environment
    const store = new Store(nobodyOnline, report)
    const use = (fn: (users: OnlineUsers) => void) =>
      parts.windows.use(({ newOnline }) => {
        connection.online ??= newOnline(connection)
        fn(connection.online)
      }, report)
    const online = watch(
      store,
      this.#open,
      use,
      (users) => users.open(set, store),
      () => this.#rest(),
    )
    this.#wake()
    return online
  }

  /** Leaves every room and closes the connection, for good. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    for (const close of this.#open) close()
    this.#connection.stop('disconnected')
  }

  #check(): void {
    if (this.#closed) throw invalid('the client has been closed', 'closed')
  }

  /** Opens the connection, a moment later, so that rooms entered together are opened together. */
  #wake(): void {
    if (this.#starting) return
    this.#starting = true
    Promise.resolve().then(() => {
      this.#starting = false
      if (this.#open.size > 0 && !this.#connection.isWanted) this.#connection.start()
    })
  }

  /** Closes the connection, if nobody needs it. */
  #rest(): void {
    if (this.#open.size === 0) this.#connection.stop(this.#closed ? 'disconnected' : 'initial')
  }

  /** Only the last entry leaves the room. */
  #leave(presence: Presence): void {
    if (--presence.entries > 0) return
    const { room, ended } = presence
    const { rooms, stream } = this.#connection
    rooms.delete(room)
    presence.close()
    if (this.#open.size > 0 && !ended) stream?.tell({ type: 'leave', room })
    this.#rest()
  }
}
