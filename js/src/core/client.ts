import type { Auth } from './auth.ts'
import { Connection, type ConnectionState } from './connection.ts'
import { checkId, checkStatus } from './data.ts'
import { Endpoint, type Guest } from './endpoint.ts'
import type { Credentials, Environment } from './environment.ts'
import { invalid, type RollcallError } from './error.ts'
import type { Frame, ReadyFrame } from './frame.ts'
import type { Status } from './member.ts'
import { parts } from './parts.ts'
import { Presence } from './presence.ts'
import { Room, type RoomOptions } from './room.ts'
import { type Readable, Store } from './store.ts'
import type { Entry, Share, Stream } from './stream.ts'
import type { TransportOption } from './transport.ts'
import type { Watched } from './watched.ts'
import { checkUsers, maxWatched, nobodyOnline, type Online, watch } from './window.ts'

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
  /** The error that ended the connection for good, or null. */
  error: RollcallError | null = null
  readonly #environment: Environment
  readonly #connection: Connection
  readonly #rooms = new Map<string, Presence>()
  /** Closes what `online` opened. */
  readonly #watches = new Set<() => void>()
  #online: Watched<Status, ReadonlyMap<string, Status>> | null = null
  #starting = false
  #closed = false

  constructor(options: ClientOptions, environment: Environment) {
    const { guest } = options
    if (guest !== undefined) checkId(guest.user, 'guest.user')
    this.#environment = environment
    this.#connection = new Connection(
      {
        environment,
        endpoint: new Endpoint(options.url ?? '', environment.origin),
        auth: options.auth,
        guest: guest ?? null,
        transport: options.transport ?? 'auto',
        share: options.share === false ? null : options.share,
        credentials: options.credentials ?? 'same-origin',
        connectTimeoutMs: options.connectTimeoutMs ?? 10_000,
      },
      {
        entries: () => this.#entries(),
        onReady: (stream, ready, resumed) => this.#ready(stream, ready, resumed),
        onFrames: (frames) => this.#receive(frames),
        onDown: (error) => this.#down(error),
        onActivity: () => {
          for (const presence of this.#rooms.values()) presence.statusChanged()
        },
      },
    )
    this.connection = this.#connection.state
  }

  /** Enters a room. The first entry opens the connection, the last `leave` closes it. */
  enter(room: string, options: RoomOptions = {}): Room {
    this.#check()
    checkId(room, 'room')
    checkStatus(options.status)
    const observe = options.observe === true
    const known = this.#rooms.get(room)
    const presence = known ?? new Presence(room, observe, this.#connection)
    // Checked before anything is entered: a call that throws leaves nothing behind.
    if (options.data !== undefined && !observe) presence.set(options.data, false)
    if (options.status !== undefined) presence.desired.setStatus(options.status)
    this.#rooms.set(room, presence)
    const revives = !presence.wanted
    if (revives) presence.revive()
    const joins = known === undefined || revives || (!observe && presence.desired.present())
    const entry = new Room(presence, () => this.#leave(presence, entry))
    presence.entries.add(entry)
    if (joins) this.#join(presence)
    else presence.statusChanged()
    return entry
  }

  /** Who of these users (at most 200 in all) is online, in any room. Open until closed. */
  online(users: readonly string[]): Online {
    this.#check()
    const set = checkUsers(users, maxWatched)
    const { report } = this.#environment
    const store = new Store(nobodyOnline, report)
    const fetch = (open: (start: () => () => void) => void) =>
      parts.windows.use(({ newOnline }) => {
        this.#online ??= newOnline(this.#connection)
        const online = this.#online
        open(() => online.open(set, store))
      }, report)
    const online = watch(store, this.#watches, fetch, () => {
      if (this.#isIdle) this.#connection.stop('initial')
    })
    this.#wake()
    return online
  }

  /** Leaves every room and closes the connection, for good. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    for (const close of this.#watches) close()
    for (const { entries } of [...this.#rooms.values()]) {
      for (const entry of [...entries]) entry.leave()
    }
    this.#connection.stop('disconnected')
  }

  #check(): void {
    if (this.#closed) throw invalid('the client has been closed', 'closed')
  }

  #join(presence: Presence): void {
    const stream = this.#connection.stream
    if (stream !== null) {
      if (stream.takes(presence.entry())) void presence.join(stream, false)
      else this.#connection.reopen()
      return
    }
    this.#wake()
  }

  get #isIdle(): boolean {
    return this.#rooms.size === 0 && this.#watches.size === 0
  }

  #wake(): void {
    const state = this.connection.get()
    if (this.#starting || (state !== 'initial' && state !== 'disconnected')) return
    // A moment later, so that rooms entered together are opened together.
    this.#starting = true
    Promise.resolve().then(() => {
      this.#starting = false
      if (!this.#isIdle) this.#start()
    })
  }

  #leave(presence: Presence, entry: Room): void {
    const { room, entries, wanted } = presence
    entries.delete(entry)
    // Only the last entry leaves, and only if the room was not entered anew under the same name.
    if (entries.size > 0 || this.#rooms.get(room) !== presence) return
    this.#rooms.delete(room)
    presence.close()
    if (this.#isIdle) this.#connection.stop(this.#closed ? 'disconnected' : 'initial')
    else if (wanted) this.#connection.stream?.tell({ type: 'leave', room })
  }

  #start(): void {
    this.error = null
    this.#connection.start()
  }

  #entries(): readonly Entry[] {
    return this.#wanted().map((presence) => presence.entry())
  }

  #wanted(): Presence[] {
    return [...this.#rooms.values()].filter(({ wanted }) => wanted)
  }

  #ready(stream: Stream, _ready: ReadyFrame, resumed: boolean): void {
    let more = false
    this.#online?.renew()
    for (const presence of this.#wanted()) {
      if (stream.takes(presence.entry())) void presence.join(stream, resumed)
      else more = true
    }
    // Entered while the stream was opening, and it cannot take them any more.
    if (more) this.#connection.reopen()
  }

  #receive(frames: readonly Frame[]): void {
    const touched = new Set<Presence>()
    for (const frame of frames) {
      if (frame.type === 'health') {
        for (const presence of this.#rooms.values()) presence.setStore(frame.store, frame.staleMs)
      } else if (frame.type === 'users') {
        this.#online?.apply(frame.fields)
      } else if ('room' in frame) {
        const presence = this.#rooms.get(frame.room)
        if (presence === undefined) continue
        if (frame.type === 'ended') {
          presence.end(frame.reason)
          continue
        }
        presence.apply(frame)
        touched.add(presence)
      }
    }
    for (const presence of touched) presence.commit()
    // A beat may be all that comes in a hidden tab: what a throttled timer left lying goes now.
    if (touched.size > 0) return
    this.#online?.poke()
    for (const presence of this.#rooms.values()) presence.poke()
  }

  #down(error: RollcallError | null): void {
    this.error = error
    this.#online?.down()
    for (const presence of this.#rooms.values()) presence.down(error)
  }
}
