import type { Auth } from './auth.ts'
import { TokenSource } from './auth.ts'
import { backoffMs } from './backoff.ts'
import { cut, type Ending, judgeBye } from './ending.ts'
import type { Endpoint, Guest } from './endpoint.ts'
import type { Credentials, Environment } from './environment.ts'
import { type RollcallError, textOf } from './error.ts'
import type { Frame, ReadyFrame } from './frame.ts'
import { parts } from './parts.ts'
import { Store } from './store.ts'
import type { Entry, Held, OpenStream, Share, Stream, StreamRequest } from './stream.ts'
import { TransportChoice, type TransportOption } from './transport.ts'
import { Watchdog } from './watchdog.ts'
import { openWebSocket } from './websocket.ts'

/*
 * The one connection of a client, whatever streams carry it:
 *
 *   initial ── start ──> connecting ── ready ──> connected
 *                                        ^           │ ended, silent, page hidden
 *                                        └─ ready ─ reconnecting
 *   any ── close, or an ending that forbids to come back ──> disconnected
 *
 * Each attempt to open is an object; whatever a past attempt still has to say is ignored.
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
}

interface Attempt {
  stream: Stream | null
  ready: ReadyFrame | null
  readyAt: number
}

/** A connection that lived this long was good: the next failure starts from the shortest wait. */
const goodMs = 5_000

export class Connection {
  readonly state: Store<ConnectionState>
  readonly #options: ConnectionOptions
  readonly #host: ConnectionHost
  readonly #token: TokenSource
  readonly #choice: TransportChoice
  readonly #watchdog: Watchdog
  #attempt: Attempt | null = null
  #held: Held | null = null
  #timer: unknown = null
  #notBefore = 0
  #failures = 0
  #renewed = false
  #wasConnected = false
  /** What is held may be held by other tabs too. */
  #isShared = false

  constructor(options: ConnectionOptions, host: ConnectionHost) {
    const { environment } = options
    this.#options = options
    this.#host = host
    this.state = new Store<ConnectionState>('initial', environment.report)
    this.#token = new TokenSource(options.auth)
    this.#choice = new TransportChoice(options.transport, environment.openSocket !== null)
    this.#watchdog = new Watchdog(environment, {
      probe: () => this.#attempt?.stream?.probe() ?? false,
      dead: () => this.#lose(cut('nothing heard from the server')),
    })
  }

  /** The open stream, once the server is ready. */
  get stream(): Stream | null {
    return this.#attempt?.ready ? this.#attempt.stream : null
  }

  get id(): string | null {
    return this.#attempt?.ready?.connection ?? null
  }

  get user(): string | null {
    return this.#attempt?.ready?.user ?? null
  }

  start(): void {
    const state = this.state.get()
    if (state !== 'initial' && state !== 'disconnected') return
    this.#failures = 0
    this.#renewed = false
    this.state.set('connecting')
    void this.#open()
  }

  /** Ends everything. `initial`: nothing to do for now; `disconnected`: for good. */
  stop(next: 'initial' | 'disconnected'): void {
    this.#drop('left')
    this.#held = null
    this.#wasConnected = false
    this.state.set(next)
  }

  /** A new stream for the same connection, at once: the old one cannot bring what is wanted. */
  reopen(): void {
    if (this.#attempt?.ready == null) return
    this.#drop('cut')
    this.#down(null)
    void this.#open()
  }

  /** The page goes away, perhaps into the back-forward cache: say so, and keep what is needed to return. */
  hide(): void {
    if (this.#attempt === null && this.#timer === null) return
    const { environment, endpoint } = this.#options
    const held = this.#held
    // A connection that is shared goes with its last tab, which says so itself.
    if (held !== null && !this.#isShared) {
      const body = JSON.stringify({ resume: held.resume, closing: true })
      environment.sendBeacon(endpoint.http(['connections', held.connection, 'release']), body)
    }
    this.#drop('closing')
    this.#down(null)
  }

  /** Something woke the page. Come back now, or make sure that the stream still lives. */
  wake(why: 'visible' | 'restored' | 'online' | 'resumed'): void {
    const { environment } = this.#options
    if (this.#attempt?.ready) {
      // After a change of network an old stream may hang for minutes; one that can answer is asked.
      this.#watchdog.check(why === 'online')
      return
    }
    // An attempt that began without a network may hang until its time-out.
    if (this.#attempt !== null && why === 'online') this.#drop('cut')
    if (this.#attempt === null && this.#isOpening() && environment.now() >= this.#notBefore) void this.#open()
  }

  #isOpening(): boolean {
    const state = this.state.get()
    return state === 'connecting' || state === 'reconnecting'
  }

  async #open(): Promise<void> {
    const { environment, endpoint, guest, credentials, connectTimeoutMs } = this.#options
    this.#clearTimer()
    const attempt: Attempt = { stream: null, ready: null, readyAt: 0 }
    this.#attempt = attempt
    const current = () => this.#attempt === attempt
    this.#timer = environment.setTimer(() => {
      if (current() && attempt.ready === null) this.#lose(cut('no answer from the server in time'))
    }, connectTimeoutMs)
    let token: string | null
    let open: OpenStream = openWebSocket
    let { share } = this.#options
    try {
      token = await this.#token.get()
    } catch (error) {
      if (current()) this.#lose(cut(`no token: ${textOf(error)}`))
      return
    }
    if (!current()) return
    const name = this.#choice.pick()
    try {
      if (name === 'sse') {
        const sse = parts.sse.value ?? (await parts.sse.load())
        open = sse.openSse
        if (share === undefined) share = await sse.shareSse(environment, endpoint.http([]))
      }
    } catch (error) {
      if (!current()) return
      this.#choice.failed()
      this.#lose(cut(textOf(error)))
      return
    }
    if (!current()) return
    const request: StreamRequest = {
      environment,
      endpoint,
      token,
      guest,
      credentials,
      held: this.#held,
      entries: this.#host.entries(),
      onFrames: (frames) => {
        if (current()) this.#receive(attempt, frames)
      },
      onEnd: (ending) => {
        if (current()) this.#lose(ending)
      },
    }
    const shared = share?.(request, open, name)
    // What other tabs hold too is theirs when this one goes alone.
    attempt.stream = shared ?? open(this.#isShared ? { ...request, held: null } : request)
    this.#isShared = shared != null
  }

  #receive(attempt: Attempt, frames: readonly Frame[]): void {
    this.#watchdog.heard()
    const rest: Frame[] = []
    for (const frame of frames) {
      switch (frame.type) {
        case 'ready':
          this.#ready(attempt, frame)
          break
        case 'bye':
          if (rest.length > 0) this.#host.onFrames(rest)
          this.#lose(judgeBye(frame.reason, frame.reconnectMs))
          return
        case 'expiring':
          void this.#renew(attempt)
          break
        default:
          rest.push(frame)
      }
      // The host may have stopped or reopened: what follows belongs to a past attempt.
      if (this.#attempt !== attempt) return
    }
    if (attempt.ready !== null) this.#host.onFrames(rest)
  }

  #ready(attempt: Attempt, ready: ReadyFrame): void {
    const { environment } = this.#options
    if (attempt.stream === null) return
    this.#clearTimer()
    const resumed = this.#held?.connection === ready.connection
    attempt.ready = ready
    attempt.readyAt = environment.now()
    this.#held = { connection: ready.connection, resume: ready.resume, eventId: null }
    this.#choice.worked(attempt.stream.transport)
    this.#wasConnected = true
    this.#notBefore = 0
    this.#watchdog.watch(ready.beatMs)
    const tell = this.state.put('connected')
    this.#host.onReady(attempt.stream, ready, resumed)
    tell?.()
  }

  async #renew(attempt: Attempt): Promise<void> {
    if (!this.#token.renewable) return
    try {
      const token = await this.#token.renew()
      if (token !== null && this.#attempt === attempt) attempt.stream?.tell({ type: 'auth', token })
    } catch {
      // The server ends the stream at the end of the token; by then there may be a new one.
      this.#token.forget()
    }
  }

  #lose(ending: Ending): void {
    const { environment } = this.#options
    const attempt = this.#attempt
    this.#drop('cut')
    const now = environment.now()
    if (attempt?.ready && now - attempt.readyAt >= goodMs) {
      this.#failures = 0
      this.#renewed = false
    }
    if (ending.verdict === 'handover') {
      this.#down(null)
      void this.#open()
      return
    }
    if (ending.verdict === 'fresh') this.#held = null
    const renews = ending.verdict === 'token' && this.#token.renewable && !this.#renewed
    if (ending.verdict === 'stop' || (ending.verdict === 'token' && !renews)) {
      this.#held = null
      const tell = this.state.put('disconnected')
      this.#host.onDown(ending.error)
      tell?.()
      return
    }
    if (renews) {
      this.#renewed = true
      this.#token.forget()
    }
    if (attempt?.stream && !attempt.ready) {
      this.#choice.failed()
      // A browser does not show a 401 to a WebSocket handshake: an old token looks like any failure.
      if (this.#choice.failures % 2 === 0) this.#token.forget()
    }
    const delay = backoffMs(this.#failures, ending, environment.random)
    this.#failures++
    this.#notBefore = ending.afterMs === null ? 0 : now + ending.afterMs
    this.#down(null)
    this.#schedule(delay)
  }

  #schedule(delay: number): void {
    const { environment } = this.#options
    // A hidden page may get its timers once a minute, longer than a lease: there the first try goes at once.
    const throttled = environment.page?.hidden() ?? false
    if (throttled && this.#failures === 1 && environment.now() >= this.#notBefore) {
      void this.#open()
      return
    }
    this.#timer = environment.setTimer(() => void this.#open(), delay)
  }

  #down(error: RollcallError | null): void {
    const tell = this.state.put(this.#wasConnected ? 'reconnecting' : 'connecting')
    this.#host.onDown(error)
    tell?.()
  }

  #drop(how: 'left' | 'closing' | 'cut'): void {
    const attempt = this.#attempt
    this.#attempt = null
    this.#watchdog.stop()
    this.#clearTimer()
    if (attempt?.stream && this.#held)
      this.#held = { ...this.#held, eventId: attempt.stream.eventId ?? this.#held.eventId }
    attempt?.stream?.close(how)
  }

  #clearTimer(): void {
    if (this.#timer !== null) this.#options.environment.clearTimer(this.#timer)
    this.#timer = null
  }
}
