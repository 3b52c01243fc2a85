/**
 * Code that is fetched when it is first needed. Once it is here, it is used at once; what was asked
 * of it before then runs in order.
 */
export class Lazy<T> {
  /** Null until it is here. */
  value: T | null = null
  readonly #import: () => Promise<T>
  #loading: Promise<T> | null = null
  #waiting: { run(value: T): void; fail(error: unknown): void }[] = []

  constructor(load: () => Promise<T>) {
    this.#import = load
  }

  /** Fetches it, once. After a failure the next call tries again. */
  load(): Promise<T> {
    this.#loading ??= this.#import().then(
      (value) => {
        this.value = value
        for (const { run } of this.#take()) run(value)
        return value
      },
      (error) => {
        this.#loading = null
        for (const { fail } of this.#take()) fail(error)
        throw error
      },
    )
    return this.#loading
  }

  use(run: (value: T) => void, fail: (error: unknown) => void): void {
    if (this.value !== null) {
      run(this.value)
      return
    }
    this.#waiting.push({ run, fail })
    // Whoever waits is told of a failure.
    this.load().catch(() => {})
  }

  #take() {
    const waiting = this.#waiting
    this.#waiting = []
    return waiting
  }
}
