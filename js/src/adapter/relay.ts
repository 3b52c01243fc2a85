import type { Readable } from '../core/store.ts'

interface Entry<T> {
  readonly fn: (value: T) => void
  stop: () => void
}

/**
 * A store that exists before what it shows: it has its initial value until it follows a source, and
 * may follow another one later. Its identity, and that of its functions, never changes.
 */
export class Relay<T> implements Readable<T> {
  readonly initial: T
  readonly #entries = new Set<Entry<T>>()
  #source: Readable<T> | null

  constructor(initial: T, source: Readable<T> | null = null) {
    this.initial = initial
    this.#source = source
  }

  readonly get = (): T => (this.#source === null ? this.initial : this.#source.get())

  readonly subscribe = (fn: (value: T) => void): (() => void) => {
    const entry: Entry<T> = { fn, stop: () => {} }
    this.#entries.add(entry)
    if (this.#source === null) fn(this.initial)
    else entry.stop = this.#source.subscribe(fn)
    return () => {
      this.#entries.delete(entry)
      entry.stop()
    }
  }

  /** Takes another source, and returns the call that tells the subscribers, as `Store.put` does. */
  follow(source: Readable<T>): () => void {
    if (source === this.#source) return () => {}
    const before = this.get()
    this.#source = source
    return () => {
      for (const entry of [...this.#entries]) {
        entry.stop()
        let known = true
        entry.stop = source.subscribe((value) => {
          // Subscribing tells the value at once; it is news only if it is another one.
          if (!known || !Object.is(value, before)) entry.fn(value)
          known = false
        })
      }
    }
  }
}
