import type { Environment } from './environment.ts'
import { Timer } from './timer.ts'

/**
 * Lets a call through at most every `everyMs`: the first at once, the last always. What it sends is
 * read when it runs, so the newest wins by itself.
 */
export class Throttle {
  readonly #environment: Environment
  readonly #everyMs: number
  readonly #run: () => void
  #ranAt = Number.NEGATIVE_INFINITY
  readonly #timer: Timer

  constructor(environment: Environment, everyMs: number, run: () => void) {
    this.#environment = environment
    this.#everyMs = everyMs
    this.#run = run
    this.#timer = new Timer(environment)
  }

  request(): void {
    const wait = this.#ranAt + this.#everyMs - this.#environment.now()
    if (wait <= 0) this.#go()
    else if (!this.#timer.isSet) this.#timer.set(wait, () => this.#go())
  }

  /** Runs what is overdue: for places that are called where timers may be throttled. */
  poke(): void {
    if (this.#timer.isSet) this.request()
  }

  cancel(): void {
    this.#timer.clear()
  }

  /** The next request goes at once. */
  reset(): void {
    this.cancel()
    this.#ranAt = Number.NEGATIVE_INFINITY
  }

  #go(): void {
    this.cancel()
    this.#ranAt = this.#environment.now()
    this.#run()
  }
}
