import { type Auth, newToken } from './auth.ts'
import type { Endpoint, Guest } from './endpoint.ts'
import type { Credentials, Environment } from './environment.ts'
import { type RollcallError, textOf } from './error.ts'
import type { Frame, ReadyFrame } from './frame.ts'
import type { Lazy } from './lazy.ts'
import type { Status } from './member.ts'
import { parts } from './parts.ts'
import type { Presence } from './presence.ts'
import { Store } from './store.ts'
import type { Cause, Held, OpenStream, Share, Stream, StreamRequest } from './stream.ts'
import { Timer } from './timer.ts'
import type { TransportOption } from './transport.ts'
import type { Upkeep } from './upkeep.ts'
import { openWebSocket } from './websocket.ts'
import type { OnlineUsers } from './windows.ts'

/*
 * The one connection of a client, whatever streams carry it:
 *
 *   initial ── start ──> connecting ── ready ──> connected
 *                                        ^           │ ended, silent, page hidden
 *                                        └─ ready ─ reconnecting
 *   any ── close, or an ending that forbids to come back ──> disconnected
 *
 * Each attempt to open is an object; whatever a past attempt still has to say is ignored. What is needed
 * later than the first picture (a server that falls silent, the way back, the page asleep and awake) is
 * in upkeep.ts, fetched when the server is ready, or when the first attempt failed.
 */

export type ConnectionState = 'initial' | 'connecting' | 'connected' | 'reconnecting' | 'disconnected'

export interface ConnectionOptions {
  readonly environment: Environment
  readonly endpoint: Endpoint
  readonly auth: Auth
  readonly guest: Guest | null
  readonly transport: TransportOption
  readonly share: Share | null | false | undefined
  readonly credentials: Credentials
  readonly connectTimeoutMs: number
}

export interface Attempt {
  stream: Stream | null
  isReady: boolean
  /** A transport was chosen, so a failure speaks against it. */
  tried: boolean
}

/** Without its upkeep, a lost connection tries again after this, or up to twice as long. */
const againMs = 2_000

export class Connection {
  readonly state: Store<ConnectionState>
  readonly options: ConnectionOptions
  readonly token: Lazy<string | null>
  /** The rooms that were entered, by name. */
  readonly rooms = new Map<string, Presence>()
  /** Rooms that were left, as far as the server has not said that it knows. */
  readonly left = new Set<string>()
  /** Those who are watched beside the rooms; null before the first of them. */
  online: OnlineUsers | null = null
  attempt: Attempt | null = null
  /** Who we are, as the server last said. */
  who: ReadyFrame | null = null
  held: Held | null = null
  /** What is held may be held by other tabs too. */
  isShared = false
  /** What ended the connection for good, or null. */
  error: RollcallError | null = null
  readonly #timer: Timer
  #lost: Cause | null = null
  /** Null until its code is here. */
  #upkeep: Upkeep | null = null

  constructor(options: ConnectionOptions) {
    this.options = options
    this.state = new Store<ConnectionState>('initial', options.environment.report)
    this.token = newToken(options.auth)
    this.#timer = new Timer(options.environment)
  }

  /** The open stream, once the server is ready. */
  get stream(): Stream | null {
    return this.attempt?.isReady ? this.attempt.stream : null
  }

  /** The status of the person at the page. */
  get status(): Status {
    return this.#upkeep?.status ?? (this.options.environment.page?.document.hidden ? 'away' : 'active')
  }

  /** Open, opening, or on the way back. */
  get isWanted(): boolean {
    const state = this.state.get()
    return state !== 'initial' && state !== 'disconnected'
  }

  start(): void {
    this.error = null
    this.#set('connecting', () => {
      this.#upkeep?.start()
      void this.open()
    })
    if (parts.upkeep.value !== null) this.#keep()
  }

  /** Ends everything. `initial`: nothing to do for now; `disconnected`: for good. */
  stop(next: 'initial' | 'disconnected'): void {
    this.drop('left')
    this.#upkeep?.stop()
    this.held = null
    this.who = null
    this.state.set(next)
  }

  /** Enters rooms on the open stream, or on a new one if it cannot take them any more. */
  join(rooms: readonly Presence[], resumed: boolean): void {
    const { stream } = this
    if (stream === null) return
    let more = false
    for (const presence of rooms) {
      if (stream.takes(presence.entry())) void presence.join(stream, resumed)
      else more = true
    }
    if (more) this.reopen()
  }

  /** Says that a room was left, and again on the next stream unless the answer came. */
  leave(room: string): void {
    this.left.add(room)
    void this.stream?.ask({ type: 'leave', room }).then(({ ok }) => ok && this.left.delete(room))
  }

  /** A new stream for the same connection, at once: the old one cannot bring what is wanted. */
  reopen(): void {
    if (this.stream === null) return
    this.drop('cut')
    this.down(() => void this.open())
  }

  async open(): Promise<void> {
    const { environment, endpoint, transport, connectTimeoutMs } = this.options
    const attempt: Attempt = { stream: null, isReady: false, tried: false }
    this.attempt = attempt
    const current = () => this.attempt === attempt
    const lose = (cause: Cause) => {
      if (current()) this.lose(cause)
    }
    const fail = (message: string) => lose({ type: 'cut', message })
    this.#timer.set(connectTimeoutMs, () => fail('no answer from the server in time'))
    try {
      const token = await this.token.load()
      if (!current()) return
      attempt.tried = true
      const first = transport === 'auto' && environment.openSocket === null ? 'sse' : transport
      const name = this.#upkeep?.transport ?? first
      let open: OpenStream = openWebSocket
      let { share } = this.options
      if (name === 'sse') {
        const sse = await parts.sse.load()
        if (!current()) return
        open = sse.openSse
        if (share === undefined) share = sse.shareSse(environment, endpoint([]))
      }
      const request: StreamRequest = {
        ...this.options,
        token,
        held: this.held,
        entries: this.#wanted().map((presence) => presence.entry()),
        onFrames: (frames) => {
          if (current()) this.#receive(attempt, frames)
        },
        onEnd: lose,
      }
      const shared = share ? share(request, open, name === 'sse' ? name : 'websocket') : null
      // What other tabs hold too is theirs when this one goes alone.
      attempt.stream = shared ?? open(this.isShared ? { ...request, held: null } : request)
      this.isShared = shared !== null
    } catch (error) {
      fail(attempt.tried ? textOf(error) : `no token: ${textOf(error)}`)
    }
  }

  openIn(ms: number): void {
    this.#timer.set(ms, () => void this.open())
  }

  /** Ends the attempt, and leaves the way back to the upkeep. */
  lose(cause: Cause): void {
    const { attempt } = this
    this.drop('cut')
    this.#lost = cause
    // What keeps its code away may well be what ended the attempt.
    if (this.#upkeep === null) this.down(() => this.openIn(againMs * (1 + this.options.environment.random())))
    this.#keep((upkeep) => {
      // Of several that waited for a judgement the last one counts.
      if (this.attempt === null && this.#lost === cause) upkeep.lost(attempt, cause)
    })
  }

  /** The state while there is no stream. `next` is the way to another: whoever hears of the state may end it. */
  down(next?: () => void): void {
    this.#set(this.who === null ? 'connecting' : 'reconnecting', () => {
      next?.()
      this.#down(null)
    })
  }

  /** Gives up. */
  end(error: RollcallError): void {
    this.#timer.clear()
    this.held = null
    this.#set('disconnected', () => this.#down(error))
  }

  drop(how: 'left' | 'closing' | 'cut'): void {
    const { attempt } = this
    this.attempt = null
    this.#timer.clear()
    this.#upkeep?.dropped(attempt)
    attempt?.stream?.close(how)
  }

  /** The person at the page may be active, idle or away now. */
  changed(): void {
    for (const presence of this.rooms.values()) presence.changed()
  }

  #wanted(): Presence[] {
    return [...this.rooms.values()].filter(({ ended }) => !ended)
  }

  #receive(attempt: Attempt, frames: readonly Frame[]): void {
    const touched = new Set<Presence>()
    const commit = () => {
      for (const presence of touched) presence.commit()
    }
    for (const frame of frames) {
      switch (frame.type) {
        case 'ready':
          this.#ready(attempt, frame)
          break
        case 'bye':
          commit()
          this.lose(frame)
          break
        case 'expiring':
          void this.#upkeep?.renew(attempt)
          break
        case 'health':
          for (const presence of this.rooms.values()) presence.setStore(frame.store, frame.staleMs)
          break
        case 'users':
          this.online?.apply(frame.fields)
          break
        default: {
          const presence = 'room' in frame && this.rooms.get(frame.room)
          if (!presence || presence.ended || !attempt.isReady) break
          if (frame.type === 'ended') {
            presence.end(frame.reason)
            break
          }
          presence.apply(frame)
          touched.add(presence)
        }
      }
      // We may have been stopped or opened anew: what follows belongs to a past attempt.
      if (this.attempt !== attempt) break
    }
    commit()
    if (this.attempt !== attempt) return
    // Its code is fetched beside the first picture; if it cannot be had, the next beat tries again.
    this.#keep((upkeep) => upkeep.heard())
    // A beat may be all that comes in a hidden tab: what a throttled timer left lying goes now.
    if (touched.size > 0) return
    this.online?.poke()
    for (const presence of this.rooms.values()) presence.poke()
  }

  #ready(attempt: Attempt, ready: ReadyFrame): void {
    this.#timer.clear()
    const resumed = this.held?.connection === ready.connection
    attempt.isReady = true
    this.who = ready
    this.held = ready
    this.#upkeep?.ready()
    this.#set('connected', () => {
      this.online?.renew()
      this.join(this.#wanted(), resumed)
    })
  }

  #down(error: RollcallError | null): void {
    this.error = error
    this.online?.down()
    for (const presence of this.rooms.values()) presence.down(error)
  }

  /** Hands over the upkeep, once its code is here, unless nothing is left to keep. */
  #keep(fn?: (upkeep: Upkeep) => void): void {
    parts.upkeep.use(
      ({ Upkeep }) => {
        if (!this.isWanted) return
        if (this.#upkeep === null) {
          this.#upkeep = new Upkeep(this)
          this.#upkeep.start()
        }
        fn?.(this.#upkeep)
      },
      () => {
        // Of a stream that is dead nothing comes that would ask for it again.
        if (this.stream !== null) this.#timer.set(againMs, () => this.#keep())
      },
    )
  }

  #set(state: ConnectionState, during: () => void): void {
    const tell = this.state.put(state)
    during()
    tell?.()
  }
}
