import type { Report } from './store.ts'

/*
 * Everything the core needs from the world outside. The browser default is in ../browser.ts; tests
 * and other runtimes hand in their own. Shapes are the smallest part of the platform's that is used.
 */

export interface SocketEvents {
  open: unknown
  message: { readonly data: unknown }
  error: unknown
  close: { readonly code: number; readonly reason: string }
}

export interface Socket {
  readonly readyState: number
  send(text: string): void
  close(code?: number, reason?: string): void
  addEventListener<K extends keyof SocketEvents>(type: K, fn: (event: SocketEvents[K]) => void): void
}

export interface HttpRequest {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal?: unknown
  readonly keepalive?: boolean
  readonly cache?: 'no-store'
  readonly credentials?: Credentials
}

export type Credentials = 'omit' | 'same-origin' | 'include'

export interface HttpReader {
  read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>
  cancel(): Promise<void>
}

export interface HttpResponse {
  readonly status: number
  readonly headers: { get(name: string): string | null }
  readonly body: { getReader(): HttpReader } | null
  json(): Promise<unknown>
}

/** What the page tells about itself; every listener returns the way to stop. */
export interface Page {
  hidden(): boolean
  /** Real input of a person: pointer, key, wheel, touch. */
  onInput(fn: () => void): () => void
  onVisibility(fn: () => void): () => void
  /** The page may never come back. */
  onHide(fn: () => void): () => void
  /** The page woke up: `restored` from the back-forward cache, network back, unfrozen. */
  onWake(fn: (why: 'restored' | 'online' | 'resumed') => void): () => void
}

/** What the tabs of a browser have in common. */
export interface Tabs {
  /**
   * Calls `held` when the lock is ours, which it is until the returned function is called, the tab is gone,
   * or another steals it: then `lost` is called.
   */
  lock(name: string, on: { held(): void; lost?(): void }, steal?: boolean): () => void
  /** Posts go to all others that have a channel of this name. */
  channel(name: string, onPost: (post: unknown) => void): { post(message: object): void; close(): void }
  newId(): string
  /** From base64 to text. */
  decode(base64: string): string
}

export interface Environment {
  /** Null where there is none: then streams are used. */
  readonly openSocket: ((url: string, protocols: string[]) => Socket) | null
  readonly fetch: (url: string, request: HttpRequest) => Promise<HttpResponse>
  /** Cancels a fetch. */
  readonly newAbort: () => { readonly signal: unknown; abort(): void }
  readonly newDecoder: () => { decode(bytes: Uint8Array, options: { stream: boolean }): string }
  /** Sends a last word as text/plain while the page goes away; false if it could not be queued. */
  readonly sendBeacon: (url: string, text: string) => boolean
  /** Null outside a page: then nothing is idle, away, or restored. */
  readonly page: Page | null
  /** Milliseconds that only go forward. */
  readonly now: () => number
  readonly setTimer: (fn: () => void, ms: number) => unknown
  readonly clearTimer: (timer: unknown) => void
  /** In [0, 1). */
  readonly random: () => number
  readonly report: Report
  /**
   * The tabs to share a connection with over event streams to the server at this address; null where there
   * is no need to, or no way. Left out: none.
   */
  readonly tabs?: (address: string) => Promise<Tabs | null>
  /** Base for a relative `url`, if there is one. */
  readonly origin: string | null
}
