/**
 * Code that is fetched when it is first needed. Once it is here, it is used at once; what was asked
 * of it before then runs in order.
 */
export class Lazy<T> {
  /** Null until it is here. */
  value: T | null = null
  readonly #import: () => Promise<T>
  #loading: Promise<T> | null = null

  constructor(load: () => Promise<T>) {
    this.#import = load
  }

  /** Fetches it, once. After a failure the next call tries again. */
  load(): Promise<T> {
    if (this.#loading === null) {
      this.#loading = this.#import()
      this.#loading.then(
        (value) => {
          this.value = value
        },
        () => {
          this.#loading = null
        },
      )
    }
    return this.#loading
  }

  /** `fail` is told why the code is not here, or what `run` threw when nobody was there any more to catch it. */
  use(run: (value: T) => void, fail: (error: unknown) => void): void {
    if (this.value === null) this.load().then(run).catch(fail)
    else run(this.value)
  }
}
