import type { Watch } from '../core/window.ts'
import { Relay } from './relay.ts'

export interface Openable<S> {
  start(source: S): void
  stop(): void
}

/**
 * A window as a component holds it. It can be made while rendering, since that opens nothing, also
 * on a server; it is open while attached, and while what it is a window on (a room, as a rule) is there.
 */
export class Opening<S, T, W extends Watch<T> = Watch<T>> extends Relay<T> implements Openable<S> {
  /** Opens it, until the returned function is called. */
  readonly attach: () => () => void
  readonly #open: (source: S) => W
  #watch: W | null = null

  constructor(initial: T, add: (opening: Openable<S>) => () => void, open: (source: S) => W) {
    super(initial)
    this.#open = open
    this.attach = () => add(this)
  }

  /** The open window, or null. */
  get watch(): W | null {
    return this.#watch
  }

  start(source: S): void {
    this.#watch = this.#open(source)
    this.follow(this.#watch)()
  }

  /** What was shown last stays. */
  stop(): void {
    this.#watch?.close()
    this.#watch = null
  }
}
