import type { Report } from './store.ts'

/** Events by name; a listener that throws is reported and disturbs nobody. */
export class Emitter<Events> {
  readonly #report: Report
  readonly #listeners = new Set<{ type: keyof Events; fn: (event: never) => void }>()

  constructor(report: Report) {
    this.#report = report
  }

  on<K extends keyof Events>(type: K, fn: (event: Events[K]) => void): () => void {
    const entry = { type, fn }
    this.#listeners.add(entry)
    return () => {
      this.#listeners.delete(entry)
    }
  }

  emit<K extends keyof Events>(type: K, event: Events[K]): void {
    for (const entry of [...this.#listeners]) {
      if (entry.type !== type) continue
      try {
        entry.fn(event as never)
      } catch (error) {
        this.#report(error)
      }
    }
  }
}
