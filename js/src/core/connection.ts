import { type Auth, TokenSource } from './auth.ts'
import type { Endpoint, Guest } from './endpoint.ts'
import type { Credentials, Environment } from './environment.ts'
import { type RollcallError, textOf } from './error.ts'
import type { Frame, ReadyFrame } from './frame.ts'
import type { Status } from './member.ts'
import { parts } from './parts.ts'
import { Store } from './store.ts'
import type { Cause, Entry, Held, OpenStream, Share, Stream, StreamRequest, TransportName } from './stream.ts'
import { Timer } from './timer.ts'
import type { TransportOption } from './transport.ts'
import type { Upkeep } from './upkeep.ts'
import { openWebSocket } from './websocket.ts'

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
  readonly share: Share | null | undefined
  readonly credentials: Credentials
  readonly connectTimeoutMs: number
}

/** What the connection asks of, and tells to, its client. */
export interface ConnectionHost {
  /** The rooms to open with, each with what is wanted there and what is known of it. */
  entries(): readonly Entry[]
  onReady(stream: Stream, ready: ReadyFrame, resumed: boolean): void
  onFrames(frames: readonly Frame[]): void
  /** The state changed to anything but connected; the error if it is for good. */
  onDown(error: RollcallError | null): void
  /** The person at the page may be active, idle or away now. */
  onActivity(): void
}

export interface Attempt {
  stream: Stream | null
  ready: ReadyFrame | null
  /** A transport was chosen, so a failure speaks against it. */
  tried: boolean
}

/** Without its upkeep, a lost connection tries again after this, or up to twice as long. */
const againMs = 2_000

export class Connection {
  readonly state: Store<ConnectionState>
  readonly options: ConnectionOptions
  readonly host: ConnectionHost
  readonly token: TokenSource
  attempt: Attempt | null = null
  /** Our connection and user by their ids, as the server last said. */
  id: string | null = null
  user: string | null = null
  held: Held | null = null
  /** What is held may be held by other tabs too. */
  isShared = false
  readonly #timer: Timer
  #wasConnected = false
  #unjudged: Cause | null = null
  /** Null until its code is here. */
  #upkeep: Upkeep | null = null

  constructor(options: ConnectionOptions, host: ConnectionHost) {
    this.options = options
    this.host = host
    this.state = new Store<ConnectionState>('initial', options.environment.report)
    this.token = new TokenSource(options.auth)
    this.#timer = new Timer(options.environment)
  }

  /** The open stream, once the server is ready. */
  get stream(): Stream | null {
    return this.attempt?.ready ? this.attempt.stream : null
  }

  /** The status of the person at the page. */
  get status(): Status {
    return this.#upkeep?.status ?? (this.options.environment.page?.document.hidden ? 'away' : 'active')
  }

  get isOpening(): boolean {
    const state = this.state.get()
    return state === 'connecting' || state === 'reconnecting'
  }

  /** Open, opening, or waiting for the next attempt. */
  get isTrying(): boolean {
    return this.attempt !== null || this.#timer.isSet
  }

  start(): void {
    const state = this.state.get()
    if (state !== 'initial' && state !== 'disconnected') return
    if (parts.upkeep.value !== null) this.#adopt(parts.upkeep.value)
    this.state.set('connecting')
    void this.open()
  }

  /** Ends everything. `initial`: nothing to do for now; `disconnected`: for good. */
  stop(next: 'initial' | 'disconnected'): void {
    this.drop('left')
    this.#upkeep?.stop()
    this.held = null
    this.#wasConnected = false
    this.state.set(next)
  }

  /** A new stream for the same connection, at once: the old one cannot bring what is wanted. */
  reopen(): void {
    if (this.stream === null) return
    this.drop('cut')
    this.down()
    void this.open()
  }

  async open(): Promise<void> {
    const { environment, endpoint, guest, credentials, transport, connectTimeoutMs } = this.options
    const attempt: Attempt = { stream: null, ready: null, tried: false }
    this.attempt = attempt
    const current = () => this.attempt === attempt
    const fail = (message: string) => {
      if (current()) this.lose({ type: 'cut', message })
    }
    this.#timer.set(connectTimeoutMs, () => fail('no answer from the server in time'))
    let open: OpenStream = openWebSocket
    let { share } = this.options
    let token: string | null = null
    let name: TransportName = 'websocket'
    try {
      token = await this.token.get()
      if (!current()) return
      attempt.tried = true
      const first = environment.openSocket === null ? 'sse' : name
      name = this.#upkeep?.transport ?? (transport === 'auto' ? first : transport)
      if (name === 'sse') {
        const sse = parts.sse.value ?? (await parts.sse.load())
        open = sse.openSse
        if (share === undefined) share = await sse.shareSse(environment, endpoint.http([]))
      }
    } catch (error) {
      fail(attempt.tried ? textOf(error) : `no token: ${textOf(error)}`)
    }
    if (!current()) return
    const request: StreamRequest = {
      environment,
      endpoint,
      token,
      guest,
      credentials,
      held: this.held,
      entries: this.host.entries(),
      onFrames: (frames) => {
        if (current()) this.#receive(attempt, frames)
      },
      onEnd: (cause) => {
        if (current()) this.lose(cause)
      },
    }
    const shared = share?.(request, open, name)
    // What other tabs hold too is theirs when this one goes alone.
    attempt.stream = shared ?? open(this.isShared ? { ...request, held: null } : request)
    this.isShared = shared != null
  }

  openIn(ms: number): void {
    this.#timer.set(ms, () => void this.open())
  }

  /** Ends the attempt, and leaves the way back to the upkeep. */
  lose(cause: Cause): void {
    const { attempt } = this
    this.drop('cut')
    if (this.#upkeep !== null) {
      this.#upkeep.lost(attempt, cause)
      return
    }
    this.down()
    // What keeps its code away may well be what ended the attempt.
    this.openIn(againMs * (1 + this.options.environment.random()))
    this.#unjudged = cause
    this.#keep(() => {
      // Of several that waited for a judgement the last one counts.
      if (this.attempt !== null || this.#unjudged !== cause) return
      this.#timer.clear()
      this.#upkeep?.lost(attempt, cause)
    })
  }

  /** The state while there is no stream. */
  down(): void {
    this.#set(this.#wasConnected ? 'reconnecting' : 'connecting', () => this.host.onDown(null))
  }

  /** Gives up. */
  end(error: RollcallError): void {
    this.held = null
    this.#set('disconnected', () => this.host.onDown(error))
  }

  drop(how: 'left' | 'closing' | 'cut'): void {
    const stream = this.attempt?.stream
    this.attempt = null
    this.#upkeep?.dropped()
    this.#timer.clear()
    if (stream && this.held) this.held = { ...this.held, eventId: stream.eventId ?? this.held.eventId }
    stream?.close(how)
  }

  #receive(attempt: Attempt, frames: readonly Frame[]): void {
    this.#upkeep?.heard()
    const rest: Frame[] = []
    for (const frame of frames) {
      switch (frame.type) {
        case 'ready':
          this.#ready(attempt, frame)
          break
        case 'bye':
          if (rest.length > 0) this.host.onFrames(rest)
          this.lose(frame)
          return
        case 'expiring':
          void this.#upkeep?.renew(attempt)
          break
        default:
          rest.push(frame)
      }
      // The host may have stopped or reopened: what follows belongs to a past attempt.
      if (this.attempt !== attempt) return
    }
    if (attempt.ready === null) return
    this.host.onFrames(rest)
    // Beside the first picture; if it cannot be had, the next beat tries again.
    if (this.#upkeep === null) this.#keep(() => {})
  }

  #ready(attempt: Attempt, ready: ReadyFrame): void {
    const { stream } = attempt
    if (stream === null) return
    this.#timer.clear()
    const resumed = this.held?.connection === ready.connection
    attempt.ready = ready
    this.id = ready.connection
    this.user = ready.user
    this.held = { connection: ready.connection, resume: ready.resume, eventId: null }
    this.#wasConnected = true
    this.#upkeep?.ready(stream.transport, ready.beatMs)
    this.#set('connected', () => this.host.onReady(stream, ready, resumed))
  }

  /** Fetches the upkeep, and lets it take over unless nothing is left to keep. */
  #keep(then: () => void): void {
    parts.upkeep.use(
      (part) => {
        if (!this.isTrying) return
        this.#adopt(part)
        then()
      },
      () => {},
    )
  }

  #adopt({ Upkeep }: { readonly Upkeep: new (connection: Connection) => Upkeep }): void {
    this.#upkeep ??= new Upkeep(this)
    this.#upkeep.start()
    if (this.attempt?.stream && this.attempt.ready) {
      this.#upkeep.ready(this.attempt.stream.transport, this.attempt.ready.beatMs)
    }
  }

  #set(state: ConnectionState, during: () => void): void {
    const tell = this.state.put(state)
    during()
    tell?.()
  }
}
