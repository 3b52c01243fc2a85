import type { Report } from './store.ts'

/** Events by name; a listener that throws is reported and disturbs nobody. */
export class Emitter<Events> {
  readonly #report: Report
  readonly #listeners = new Map<keyof Events, Set<{ fn: (event: never) => void }>>()

  constructor(report: Report) {
    this.#report = report
  }

  on<K extends keyof Events>(type: K, fn: (event: Events[K]) => void): () => void {
    const entry = { fn }
    const listeners = this.#listeners.get(type) ?? new Set()
    this.#listeners.set(type, listeners.add(entry))
    return () => {
      listeners.delete(entry)
    }
  }

  emit<K extends keyof Events>(type: K, event: Events[K]): void {
    for (const { fn } of [...(this.#listeners.get(type) ?? [])]) {
      try {
        ;(fn as (event: Events[K]) => void)(event)
      } catch (error) {
        this.#report(error)
      }
    }
  }
}
