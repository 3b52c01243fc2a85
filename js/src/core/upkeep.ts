import { Activity } from './activity.ts'
import { backoffMs } from './backoff.ts'
import type { Attempt, Connection } from './connection.ts'
import { judge } from './ending.ts'
import type { PageEvent, PageTarget } from './environment.ts'
import type { Status } from './member.ts'
import type { Presence } from './presence.ts'
import { RoomUpkeep } from './roomupkeep.ts'
import type { Cause, TransportName } from './stream.ts'
import { TransportChoice } from './transport.ts'
import { Watchdog } from './watchdog.ts'

const inputs = ['pointerdown', 'pointermove', 'keydown', 'wheel', 'touchstart'] as const
/** A connection that lived this long was good: the next failure starts from the shortest wait. */
const goodMs = 5_000

/**
 * What keeps a connection once it was opened: it notices a dead server, finds the way back, follows the
 * page to sleep and awake, and the person at it. Fetched beside the first picture; until it is here the
 * connection does without (connection.ts).
 */
export class Upkeep {
  readonly #connection: Connection
  readonly #activity: Activity
  readonly #choice: TransportChoice
  readonly #watchdog: Watchdog
  /** Ends all listening to the page. */
  #following: { abort(): void } | null = null
  /** A new token can be had. */
  readonly #renews: boolean
  #notBefore = 0
  #failures = 0
  #renewed = false
  #readyAt = 0

  constructor(connection: Connection) {
    const { environment, transport, auth } = connection.options
    this.#connection = connection
    this.#renews = typeof auth === 'function'
    this.#activity = new Activity(environment, () => connection.changed())
    this.#choice = new TransportChoice(transport, environment.openSocket !== null)
    this.#watchdog = new Watchdog(environment, {
      probe: () => connection.attempt?.stream?.tell({ type: 'ping' }) ?? false,
      dead: () => connection.lose({ type: 'cut', message: 'nothing heard from the server' }),
    })
  }

  get status(): Status {
    return this.#activity.status
  }

  get transport(): TransportName {
    return this.#choice.pick()
  }

  /** The connection is wanted: follows the page from now on. */
  start(): void {
    const { stream, options: connected } = this.#connection
    const { page, platform } = connected.environment
    this.#failures = 0
    this.#renewed = false
    if (stream !== null) this.ready()
    if (page === null || this.#following !== null) return
    const { window, document } = page
    const abort = new platform.AbortController()
    this.#following = abort
    // Capture: the application may stop the propagation of its own events.
    const options = { capture: true, passive: true, signal: abort.signal }
    const on = (target: PageTarget, type: string, fn: (event: PageEvent) => void) =>
      target.addEventListener(type, fn, options)
    for (const type of inputs) on(window, type, () => this.#activity.input())
    on(document, 'visibilitychange', () => {
      this.#activity.visibility()
      if (!document.hidden) this.#wake(false)
    })
    on(window, 'pagehide', () => this.#hide())
    on(window, 'pageshow', ({ persisted }) => {
      if (persisted) this.#wake(false)
    })
    on(window, 'online', () => this.#wake(true))
    on(document, 'resume', () => this.#wake(false))
    this.#activity.watch()
  }

  /** No timer and no listener stays behind. */
  stop(): void {
    this.#following?.abort()
    this.#following = null
    this.#activity.stop()
    this.#connection.left.clear()
  }

  ready(): void {
    const { left, rooms, stream, who } = this.#connection
    if (stream === null || who === null) return
    for (const room of left) {
      // A member is one still, where it came back meanwhile; to observe, it has to leave first.
      if (rooms.get(room)?.desired.observe === false) left.delete(room)
      else this.#connection.leave(room)
    }
    this.#readyAt = this.#connection.options.environment.now()
    this.#notBefore = 0
    this.#choice.worked(stream.transport)
    this.#watchdog.watch(who.beatMs)
  }

  heard(): void {
    this.#watchdog.heard()
  }

  /** The attempt is over, whoever ended it. */
  dropped(attempt: Attempt | null): void {
    const { held } = this.#connection
    const eventId = attempt?.stream?.eventId
    if (held !== null && eventId) this.#connection.held = { ...held, eventId }
    this.#watchdog.stop()
  }

  /** A new token for the open stream, whose own is about to end. */
  async renew(attempt: Attempt): Promise<void> {
    const { token: source } = this.#connection
    if (!this.#renews) return
    try {
      const token = await source.renew()
      if (token !== null && this.#connection.attempt === attempt)
        attempt.stream?.tell({ type: 'auth', token })
    } catch {
      // The server ends the stream at the end of the token; by then there may be a new one.
      source.value = null
    }
  }

  /** The connection lost its stream: finds the way back, or gives up. */
  lost(attempt: Attempt | null, cause: Cause): void {
    const connection = this.#connection
    const { environment } = connection.options
    const ending = judge(cause)
    const now = environment.now()
    if (attempt?.isReady && now - this.#readyAt >= goodMs) {
      this.#failures = 0
      this.#renewed = false
    }
    if (ending.verdict === 'handover') {
      connection.down(() => void connection.open())
      return
    }
    const renews = ending.verdict === 'token' && this.#renews && !this.#renewed
    if (ending.verdict === 'stop' || (ending.verdict === 'token' && !renews)) {
      connection.end(ending.error)
      return
    }
    if (ending.verdict === 'fresh') connection.held = null
    if (renews) {
      this.#renewed = true
      connection.token.value = null
    }
    if (attempt?.tried && !attempt.isReady) {
      this.#choice.failed()
      // A browser does not show a 401 to a WebSocket handshake: an old token looks like any failure.
      if (this.#choice.failures % 2 === 0) connection.token.value = null
    }
    const delay = backoffMs(this.#failures, ending, environment.random)
    this.#notBefore = ending.afterMs === null ? 0 : now + ending.afterMs
    // A hidden page may get its timers once a minute, longer than a lease: there the first try goes at once.
    const atOnce = this.#failures++ === 0 && now >= this.#notBefore && environment.page?.document.hidden
    connection.down(() => {
      if (atOnce) void connection.open()
      else connection.openIn(delay)
    })
  }

  /** The page goes away, perhaps into the back-forward cache: say so, and keep what is needed to return. */
  #hide(): void {
    const connection = this.#connection
    const { held, options } = connection
    if (!connection.isWanted) return
    // A connection that is shared goes with its last tab, which says so itself.
    if (held !== null && !connection.isShared) {
      const body = JSON.stringify({ resume: held.resume, closing: true })
      const path = ['connections', held.connection, 'release']
      options.environment.platform.navigator?.sendBeacon?.(options.endpoint(path), body)
    }
    connection.drop('closing')
    connection.down()
  }

  /** Something woke the page. Come back now, or make sure that the stream still lives. */
  #wake(online: boolean): void {
    const connection = this.#connection
    if (connection.stream !== null) {
      // After a change of network an old stream may hang for minutes; one that can answer is asked.
      this.#watchdog.check(online)
      return
    }
    // An attempt that began without a network may hang until its time-out.
    if (online && connection.attempt !== null) connection.drop('cut')
    const { attempt, isWanted, options } = connection
    if (attempt === null && isWanted && options.environment.now() >= this.#notBefore) void connection.open()
  }
}

export function ofRoom(presence: Presence): RoomUpkeep {
  return new RoomUpkeep(presence)
}
