import type { Endpoint, Guest, Query } from './endpoint.ts'
import type { Credentials, Environment } from './environment.ts'
import { RollcallError } from './error.ts'
import type { Frame, Raw } from './frame.ts'
import type { JsonObject, Status } from './member.ts'

export type TransportName = 'websocket' | 'sse'

/** What the application wants to be in a room, whatever happens to connections. */
export interface Wish {
  readonly observe: boolean
  readonly status: Status
  /** Null if the application never set any. */
  readonly data: JsonObject | null
}

/** A room to be opened: what we want there, and the state we hold, if any. */
export interface Entry {
  readonly room: string
  readonly wish: Wish
  readonly since: { readonly epoch: string; readonly version: number } | null
}

export interface SetChange {
  readonly status?: Status
  readonly data?: JsonObject
  readonly replace?: true
}

/** What we say, by its name on the wire (but `join`): `{ type: 'set', room, data }`. */
export interface Message {
  readonly type: 'set' | 'leave' | 'signal' | 'auth' | 'page' | 'closePage' | 'contacts' | 'users'
  readonly room?: string
  readonly [field: string]: unknown
}

/** What brings frames, and no answer: the state of a room, or a sign of life. */
export type Inquiry = { readonly type: 'snapshot'; readonly room: string } | { readonly type: 'ping' }

export type Answer =
  | { readonly ok: true; readonly fields: Raw }
  | { readonly ok: false; readonly error: RollcallError }

export function closed(): Answer {
  return { ok: false, error: new RollcallError('closed', 'the connection closed before the answer', true) }
}

/** What is kept from one stream to the next, so that the server knows the connection again. */
export interface Held {
  readonly connection: string
  readonly resume: string
  /** The last SSE event id: the state of all rooms of the stream. */
  readonly eventId?: string
}

/** How a stream ended, as its transport saw it; ending.ts judges what that means. */
export type Cause =
  /** The server said why. */
  | { readonly type: 'bye'; readonly fields: Raw }
  /** A WebSocket closed with this code. */
  | { readonly type: 'close'; readonly code: number; readonly reason: string }
  /** Opening was answered with another HTTP status than 200. */
  | { readonly type: 'status'; readonly status: number; readonly retryAfter: string | null }
  /** Without a word of the server; or in favour of another stream, which is no failure. */
  | { readonly type: 'cut' | 'handover'; readonly message: string }

export interface StreamRequest {
  readonly environment: Environment
  readonly endpoint: Endpoint
  readonly token: string | null
  readonly guest: Guest | null
  readonly credentials: Credentials
  readonly held: Held | null
  /** WebSocket joins after `ready`; SSE names its rooms in the address. */
  readonly entries: readonly Entry[]
  readonly onFrames: (frames: readonly Frame[]) => void
  /** Called once, and never after `close`. */
  readonly onEnd: (cause: Cause) => void
}

/** Who opens the stream, as far as its address says: a token goes another way. */
export function identity({ token, guest, held }: StreamRequest): Query {
  const named = token === null ? guest : null
  return Object.entries({ user: named?.user, name: named?.name, resume: held?.resume })
}

/** One open stream, over either transport. */
export interface Stream {
  readonly transport: TransportName
  /** The newest SSE event id. */
  readonly eventId?: string | null
  /** False if only a new stream can bring this room. */
  takes(entry: Entry): boolean
  /** Enters a room, or confirms one that the opening named; `resumed` = the server knew the connection. */
  join(entry: Entry, resumed: boolean): Promise<Answer>
  /** Says it, and waits for the answer to the last; messages that go together have one room and type. */
  ask(...messages: readonly Message[]): Promise<Answer>
  /** Says it, and wants no answer; false if there is no way to: then only a new stream brings a state. */
  tell(...messages: readonly (Message | Inquiry)[]): boolean
  /** `left`: gone for good, every room has been left. `closing`: the page goes away. `cut`: only this stream. */
  close(how: 'left' | 'closing' | 'cut'): void
}

/** Throws where there is no way to open one. */
export type OpenStream = (request: StreamRequest) => Stream

/**
 * Opens a stream that many tabs share, of which `open` opens the one to the server. Null if it is not known
 * whose it would be: then the tab has its own.
 */
export type Share = (request: StreamRequest, open: OpenStream, transport: TransportName) => Stream | null
