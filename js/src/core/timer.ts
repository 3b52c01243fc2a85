import type { Environment } from './environment.ts'

/** One thing to be done later, or nothing. */
export class Timer {
  readonly #environment: Environment
  #timer: unknown = null

  constructor(environment: Environment) {
    this.#environment = environment
  }

  get isSet(): boolean {
    return this.#timer !== null
  }

  /** Runs `fn` in `ms`, in place of what was to run. */
  set(ms: number, fn: () => void): void {
    this.clear()
    this.#timer = this.#environment.setTimer(() => {
      this.#timer = null
      fn()
    }, ms)
  }

  clear(): void {
    if (this.#timer !== null) this.#environment.clearTimer(this.#timer)
    this.#timer = null
  }
}
