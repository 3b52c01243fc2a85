/**
 * What is fetched when it is first needed, and once at a time: code, a token. Once it is here, it is used at
 * once; what was asked of it before then runs in order.
 */
export class Lazy<T> {
  /** Null until it is here; whoever sets it to null has the next call fetch it anew. */
  value: T | null = null
  readonly #fetch: () => Promise<T>
  #fetching: Promise<T> | null = null

  constructor(fetch: () => Promise<T>) {
    this.#fetch = fetch
  }

  /** Fetches it, unless it is here. After a failure the next call tries again. */
  async load(): Promise<T> {
    return this.value ?? this.renew()
  }

  /** Fetches it, in place of what is here. */
  renew(): Promise<T> {
    if (this.#fetching === null) {
      const end = () => {
        this.#fetching = null
      }
      this.#fetching = this.#fetch()
      // Before all who wait for it, and with nobody between it and them.
      this.#fetching.then((value) => {
        this.value = value
        end()
      }, end)
    }
    return this.#fetching
  }

  /** `fail` is told why it is not here, or what `run` threw when nobody was there any more to catch it. */
  use(run: (value: T) => void, fail: (error: unknown) => void): void {
    if (this.value === null) this.renew().then(run).catch(fail)
    else run(this.value)
  }
}
