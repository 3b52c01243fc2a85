/** A token, a way to get one (asked again when the server wants a new one), or nothing: guests, cookies. */
export type Auth =
  | string
  | (() => Promise<string | null | undefined> | string | null | undefined)
  | null
  | undefined

/** Holds the token in use. Asks the application once at a time, and only when there is a reason. */
export class TokenSource {
  readonly #auth: Auth
  #token: string | null = null
  #asking: Promise<string | null> | null = null

  constructor(auth: Auth) {
    this.#auth = auth
    if (typeof auth === 'string' && auth !== '') this.#token = auth
  }

  /** True if a new token can be had. */
  get renewable(): boolean {
    return typeof this.#auth === 'function'
  }

  get(): Promise<string | null> {
    if (this.#token !== null || !this.renewable) return Promise.resolve(this.#token)
    return this.renew()
  }

  renew(): Promise<string | null> {
    const auth = this.#auth
    if (typeof auth !== 'function') return Promise.resolve(this.#token)
    this.#asking ??= Promise.resolve()
      .then(auth)
      .then((token) => {
        this.#token = token || null
        return this.#token
      })
      .finally(() => {
        this.#asking = null
      })
    return this.#asking
  }

  /** The next `get` asks again. */
  forget(): void {
    if (this.renewable) this.#token = null
  }
}
