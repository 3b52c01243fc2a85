/** A value that can be read and watched. It is a Svelte store: `subscribe` runs at once. */
export interface Readable<T> {
  get(): T
  /** Calls `fn` now and at each change; returns the way to stop. */
  subscribe(fn: (value: T) => void): () => void
}

/** Reports an error of the application's own callback, which must not break the client. */
export type Report = (error: unknown) => void

/** A readable store with one owner that writes it. */
export class Store<T> implements Readable<T> {
  readonly #report: Report
  readonly #subscribers = new Set<{ fn: (value: T) => void }>()
  #value: T

  constructor(value: T, report: Report) {
    this.#value = value
    this.#report = report
  }

  get(): T {
    return this.#value
  }

  subscribe(fn: (value: T) => void): () => void {
    // One entry per call: the same function may subscribe twice and stop once.
    const entry = { fn }
    this.#subscribers.add(entry)
    fn(this.#value)
    return () => {
      this.#subscribers.delete(entry)
    }
  }

  set(value: T): void {
    this.put(value)?.()
  }

  /**
   * Stores the value and returns the call that tells the subscribers, or nothing if it is the same.
   * Putting several stores before telling any of them keeps subscribers from seeing a half-made state.
   */
  put(value: T): (() => void) | undefined {
    if (Object.is(value, this.#value)) return undefined
    this.#value = value
    return () => {
      for (const entry of [...this.#subscribers]) {
        // A callback may have stopped a later one, or written again: tell only what still holds.
        if (!this.#subscribers.has(entry) || !Object.is(value, this.#value)) continue
        try {
          entry.fn(value)
        } catch (error) {
          this.#report(error)
        }
      }
    }
  }
}
