import type { Environment } from './environment.ts'
import type { Status } from './member.ts'
import { Timer } from './timer.ts'

/** Without input for this long, a person is idle. */
export const idleAfterMs = 120_000

/**
 * The status of the person at this page: away when the page is hidden, idle after two minutes
 * without input, else active. It knows nothing of connections, so idle time runs on while there is
 * none, and a reconnect makes nobody look awake.
 */
export class Activity {
  readonly #environment: Environment
  readonly #tell: () => void
  readonly #timer: Timer
  #inputAt: number

  /** `tell` is called when the status may be another. */
  constructor(environment: Environment, tell: () => void) {
    this.#environment = environment
    this.#tell = tell
    this.#timer = new Timer(environment)
    this.#inputAt = environment.now()
  }

  get status(): Status {
    const { page } = this.#environment
    if (page?.document.hidden) return 'away'
    return page === null || this.#left() > 0 ? 'active' : 'idle'
  }

  /** Tells now, and again when the person has been idle for too long. */
  watch(): void {
    this.#tell()
    if (this.status === 'active') this.#timer.set(this.#left(), () => this.watch())
    else this.#timer.clear()
  }

  input(): void {
    const { status } = this
    this.#inputAt = this.#environment.now()
    // Input comes often: only the first after a pause has anything to change.
    if (status !== 'active') this.watch()
  }

  visibility(): void {
    // Coming back to a page is an act of the person, as good as a key.
    if (this.status !== 'away') this.#inputAt = this.#environment.now()
    this.watch()
  }

  stop(): void {
    this.#timer.clear()
  }

  #left(): number {
    return this.#inputAt + idleAfterMs - this.#environment.now()
  }
}
