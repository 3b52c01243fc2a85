import type { Environment } from './environment.ts'
import type { Status } from './member.ts'
import { Store } from './store.ts'
import { Timer } from './timer.ts'

/** Without input for this long, a person is idle. */
export const idleAfterMs = 120_000

/**
 * The status of the person at this page: away when the page is hidden, idle after two minutes
 * without input, else active. It knows nothing of connections, so idle time runs on while there is
 * none, and a reconnect makes nobody look awake.
 */
export class Activity {
  readonly status: Store<Status>
  readonly #environment: Environment
  #inputAt: number
  readonly #timer: Timer
  #stops: (() => void)[] = []

  constructor(environment: Environment) {
    this.#environment = environment
    this.#inputAt = environment.now()
    this.#timer = new Timer(environment)
    this.status = new Store<Status>(environment.page?.hidden() ? 'away' : 'active', environment.report)
  }

  start(): void {
    const { page, now } = this.#environment
    if (page === null || this.#stops.length > 0) return
    const input = () => {
      this.#inputAt = now()
      // Input comes often: only the first after a pause has anything to change.
      if (this.status.get() !== 'active') this.#judge()
    }
    this.#stops = [
      page.onInput(input),
      page.onVisibility(() => {
        // Coming back to a page is an act of the person, as good as a key.
        if (!page.hidden()) this.#inputAt = now()
        this.#judge()
      }),
    ]
    this.#judge()
  }

  stop(): void {
    for (const stop of this.#stops) stop()
    this.#stops = []
    this.#timer.clear()
  }

  #judge(): void {
    const { page, now } = this.#environment
    this.#timer.clear()
    if (page?.hidden()) {
      this.status.set('away')
      return
    }
    const left = this.#inputAt + idleAfterMs - now()
    if (left > 0) this.#timer.set(left, () => this.#judge())
    this.status.set(left > 0 ? 'active' : 'idle')
  }
}
