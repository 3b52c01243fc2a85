import { Lazy } from './lazy.ts'

/** A token, a way to get one (asked again when the server wants a new one), or nothing: guests, cookies. */
export type Auth =
  | string
  | (() => Promise<string | null | undefined> | string | null | undefined)
  | null
  | undefined

/** The token in use. The application is asked once at a time, and only when there is a reason. */
export function newToken(auth: Auth): Lazy<string | null> {
  return new Lazy(async () => (typeof auth === 'function' ? await auth() : auth) || null)
}
