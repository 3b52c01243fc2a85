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
  }

  async get(): Promise<string | null> {
    return this.#token ?? this.renew()
  }

  renew(): Promise<string | null> {
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = null
    })
    return this.#asking
  }

  /** The next `get` asks again. */
  forget(): void {
    this.#token = null
  }

  async #ask(): Promise<string | null> {
    const auth = this.#auth
    this.#token = (typeof auth === 'function' ? await auth() : auth) || null
    return this.#token
  }
}
