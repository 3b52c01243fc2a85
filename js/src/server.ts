import { createHmac, timingSafeEqual } from 'node:crypto'
import { RollcallError } from './core/error.ts'
import type { Mode } from './core/frame.ts'
import type { JsonObject, Member, Status } from './core/member.ts'

/*
 * For back ends on Node: tokens for browsers, reads, kicks, and the signature of webhooks. It uses
 * nothing but Node. What it holds (a secret, a server key) must never reach a browser.
 */

export { RollcallError }

export type Right = 'count' | 'read' | 'presence' | 'contacts' | 'signal' | 'admin'

export interface TokenClaims {
  /** Who it is: the id of the user. */
  readonly user: string
  /** What others see: name, avatar, color. At most 2 KiB. */
  readonly info?: object
  /** Patterns of rooms (`doc:*`) for presence, or pattern -> rights. Left out: no room. */
  readonly rooms?: readonly string[] | Readonly<Record<string, readonly Right[]>>
  /** Sees, and is never seen. */
  readonly hidden?: boolean
  /** The session of the application: `disconnect` may end it alone. */
  readonly session?: string
  /** How long it is good. Default 10 minutes. */
  readonly expiresInMs?: number
}

export interface TokenOptions {
  /** The key id, where the server has several. */
  readonly keyId?: string
  /** Unix milliseconds; default now. */
  readonly now?: number
}

/** A token (JWT, HS256) for a browser, signed with the secret of `--jwt-secret`. */
export function mintToken(secret: string, claims: TokenClaims, options: TokenOptions = {}): string {
  const { user, info, rooms, hidden, session, expiresInMs = 600_000 } = claims
  if (typeof secret !== 'string' || secret === '') throw new RollcallError('invalid', 'the secret is empty')
  if (typeof user !== 'string' || user === '') throw new RollcallError('invalid', 'a token needs a user')
  if (!(expiresInMs > 0)) throw new RollcallError('invalid', 'expiresInMs must be more than 0')
  const now = options.now ?? Date.now()
  const header = { alg: 'HS256', typ: 'JWT', ...(options.keyId === undefined ? {} : { kid: options.keyId }) }
  const payload = {
    sub: user,
    iat: Math.floor(now / 1000),
    exp: Math.ceil((now + expiresInMs) / 1000),
    ...(info === undefined ? {} : { info }),
    ...(rooms === undefined ? {} : { rooms }),
    ...(hidden === true ? { hidden } : {}),
    ...(session === undefined ? {} : { sid: session }),
  }
  const text = `${encode(header)}.${encode(payload)}`
  return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`
}

export interface ServerOptions {
  /** Where the server is: `http://127.0.0.1:8080`. */
  readonly url: string
  /** A key of `--api-key`: `sk_...`. */
  readonly key: string
  /** Of one call. Default 5,000. */
  readonly timeoutMs?: number
  readonly fetch?: typeof fetch
}

export interface RoomState {
  readonly room: string
  readonly mode: Mode
  readonly count: number
  readonly connections: number
  readonly epoch: string
  readonly version: number
}

export interface MembersPage {
  /** Newest join first. */
  readonly members: readonly Member[]
  readonly nextCursor: string | null
  readonly count: number
}

export interface RoomListing {
  readonly rooms: readonly { readonly room: string; readonly count: number; readonly mode: Mode }[]
  readonly nextCursor: string | null
}

export interface UserState {
  readonly user: string
  /** Null = offline. */
  readonly status: Status | null
  readonly rooms?: readonly string[]
  /** Unix milliseconds; left out if never seen. */
  readonly lastSeen?: number
}

/** Reads and orders of a back end. Every call throws a `RollcallError` with the code of the server. */
export class RollcallServer {
  readonly #options: ServerOptions

  constructor(options: ServerOptions) {
    this.#options = { ...options, url: options.url.replace(/\/+$/, '').replace(/\/v1$/, '') }
  }

  /** A room that nobody is in has count 0. */
  room(room: string): Promise<RoomState> {
    return this.#call('GET', ['rooms', room])
  }

  /** Rooms with members, by name. */
  rooms(options: { prefix?: string; cursor?: string; limit?: number } = {}): Promise<RoomListing> {
    return this.#call('GET', ['rooms'], undefined, options)
  }

  /** A page of the members; `limit` 1-200, default 50. */
  members(room: string, options: { cursor?: string; limit?: number } = {}): Promise<MembersPage> {
    return this.#call('GET', ['rooms', room, 'members'], undefined, options)
  }

  /** All members, page by page. */
  async *eachMember(room: string): AsyncGenerator<Member> {
    let cursor: string | null = null
    do {
      const page: MembersPage = await this.members(room, {
        limit: 200,
        ...(cursor === null ? {} : { cursor }),
      })
      yield* page.members
      cursor = page.nextCursor
    } while (cursor !== null)
  }

  /** One member, or null if that user is not here. */
  async member(room: string, user: string): Promise<Member | null> {
    try {
      return await this.#call<Member>('GET', ['rooms', room, 'members', user])
    } catch (error) {
      if (error instanceof RollcallError && error.code === 'not_found') return null
      throw error
    }
  }

  /** Which of at most 1,000 users are here. */
  async present(room: string, users: readonly string[]): Promise<readonly Member[]> {
    const path = ['rooms', room, 'members', 'lookup']
    return (await this.#call<{ present: readonly Member[] }>('POST', path, { users })).present
  }

  /** How many are in each of at most 500 rooms. */
  async counts(rooms: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const { counts } = await this.#call<{ counts: JsonObject }>('POST', ['counts'], { rooms })
    return new Map(Object.entries(counts) as [string, number][])
  }

  user(user: string): Promise<UserState> {
    return this.#call('GET', ['users', user])
  }

  /** At most 1,000 users. */
  async users(users: readonly string[]): Promise<readonly UserState[]> {
    return (await this.#call<{ users: readonly UserState[] }>('POST', ['users', 'lookup'], { users })).users
  }

  /** Out of the room, and not back before `banMs` (default 60,000). */
  async kick(room: string, user: string, options: { banMs?: number } = {}): Promise<void> {
    await this.#call('POST', ['rooms', room, 'members', user, 'kick'], options)
  }

  /** Ends all connections of a user, or of one session, and refuses their tokens of before now. */
  async disconnect(user: string, options: { session?: string } = {}): Promise<void> {
    await this.#call('POST', ['users', user, 'disconnect'], options)
  }

  async #call<T>(method: string, path: readonly string[], body?: object, query: object = {}): Promise<T> {
    const { url, key, timeoutMs = 5_000, fetch: send = fetch } = this.#options
    const asked = Object.entries(query).filter(([, value]) => value !== undefined)
    const search = new URLSearchParams(asked.map(([name, value]) => [name, String(value)]))
    const address = `${url}/v1/${path.map(encodeURIComponent).join('/')}${search.size > 0 ? `?${search}` : ''}`
    let response: Response
    try {
      response = await send(address, {
        method,
        headers: {
          Authorization: `Bearer ${key}`,
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(timeoutMs),
      })
    } catch (error) {
      throw new RollcallError('unreachable', error instanceof Error ? error.message : String(error), true)
    }
    if (response.status === 204) return undefined as T
    const answer = await response.json().catch(() => null)
    if (response.ok && answer !== null) return answer as T
    const code = typeof answer?.code === 'string' ? answer.code : `http_${response.status}`
    const detail =
      typeof answer?.detail === 'string' ? answer.detail : `the server answered ${response.status}`
    throw new RollcallError(code, detail, response.status === 429 || response.status >= 500)
  }
}

export interface WebhookOptions {
  /** How old it may be, and how far ahead. Default 5 minutes. */
  readonly toleranceMs?: number
  /** Unix milliseconds; default now. */
  readonly now?: number
}

/**
 * Whether a webhook comes from the server: `Rollcall-Signature: t=<Unix seconds>,v1=<hex>`, where v1 is
 * HMAC-SHA256 of `t + "." + body` under the secret of the hook. `body` is what came, byte for byte, not
 * parsed and printed again. Several `v1` may stand there while a secret is changed; any that fits will do.
 */
export function verifyWebhook(
  secret: string,
  signature: string | null | undefined,
  body: string | Uint8Array,
  options: WebhookOptions = {},
): boolean {
  const { toleranceMs = 300_000, now = Date.now() } = options
  if (secret === '' || typeof signature !== 'string') return false
  const parts = signature.split(',').map((part) => part.trim().split('=') as [string, string?])
  const times = parts.filter(([name]) => name === 't')
  const time = times[0]?.[1] ?? ''
  if (times.length !== 1 || !/^\d{1,12}$/.test(time)) return false
  if (Math.abs(now - Number(time) * 1000) > toleranceMs) return false
  const wanted = createHmac('sha256', secret).update(`${time}.`).update(body).digest()
  let fits = false
  for (const [name, value = ''] of parts) {
    if (name !== 'v1' || !/^[0-9a-f]{64}$/i.test(value)) continue
    if (timingSafeEqual(Buffer.from(value, 'hex'), wanted)) fits = true
  }
  return fits
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
