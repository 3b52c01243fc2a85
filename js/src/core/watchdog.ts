import type { Environment } from './environment.ts'
import { Timer } from './timer.ts'

/** A server beats every `beatMs`; longer silence than this many of them means it is dead. */
const silenceBeats = 1.6
/** How long a probe may stay unanswered. */
const probeMs = 3_000
/** A timer this late says that the page was asleep, not that the server was silent. */
const lateMs = 2_000

/**
 * Notices a dead server. It compares times and never counts ticks, so a throttled timer makes it
 * slow, not wrong; and a late one makes it ask first, since what came meanwhile may still be unread.
 */
export class Watchdog {
  readonly #environment: Environment
  readonly #on: { probe(): boolean; dead(): void }
  #beatMs = 0
  #heardAt = 0
  #probedAt: number | null = null
  readonly #timer: Timer

  constructor(environment: Environment, on: { probe(): boolean; dead(): void }) {
    this.#environment = environment
    this.#on = on
    this.#timer = new Timer(environment)
  }

  watch(beatMs: number): void {
    this.stop()
    this.#beatMs = beatMs
    this.#heardAt = this.#environment.now()
    this.#arm()
  }

  heard(): void {
    this.#heardAt = this.#environment.now()
    this.#probedAt = null
  }

  /** Makes sure of the stream now. `doubtful` = there is reason to think it dead. */
  check(doubtful: boolean): void {
    if (this.#beatMs === 0) return
    const silence = this.#environment.now() - this.#heardAt
    if (!doubtful && silence < 1_000) return
    if (this.#probe()) return
    if (doubtful || silence > this.#beatMs * 1.1) {
      this.#on.dead()
    }
  }

  stop(): void {
    this.#timer.clear()
    this.#beatMs = 0
    this.#probedAt = null
  }

  #probe(): boolean {
    const before = this.#probedAt
    const now = this.#environment.now()
    // An unanswered probe keeps its deadline, unless that passed while the page slept.
    if (before === null || now > before + probeMs) this.#probedAt = now
    if (!this.#on.probe()) {
      this.#probedAt = before
      return false
    }
    this.#arm()
    return true
  }

  #due(): number {
    return this.#probedAt === null ? this.#heardAt + silenceBeats * this.#beatMs : this.#probedAt + probeMs
  }

  #arm(): void {
    const due = this.#due()
    this.#timer.set(Math.max(0, due - this.#environment.now()), () => this.#fire(due))
  }

  #fire(armedFor: number): void {
    const now = this.#environment.now()
    if (now < this.#due()) {
      this.#arm()
      return
    }
    if (now - armedFor > lateMs && this.#probe()) return
    this.#on.dead()
  }
}
