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

export interface PageEvent {
  readonly type: string
  /** Of `pageshow`: the page comes from the back-forward cache. */
  readonly persisted?: boolean
}

export interface PageTarget {
  /** `options.signal` ends the listening. */
  addEventListener(type: string, fn: (event: PageEvent) => void, options: object): void
}

/** The page that a client is in: a browser's own `window` and `document`, or what says the same. */
export interface Page {
  readonly window: PageTarget
  readonly document: PageTarget & { readonly hidden: boolean }
}

/** What a browser and other platforms have by these names, as they have it: `globalThis` is one. */
export interface Platform {
  fetch(url: string, request: HttpRequest): Promise<HttpResponse>
  readonly AbortController: new () => { readonly signal: { readonly aborted: boolean }; abort(): void }
  readonly TextDecoder: new () => { decode(bytes: Uint8Array, options: { stream: boolean }): string }
  readonly navigator?: {
    /** Queues a last word, as text/plain, while the page goes away. */
    sendBeacon?(url: string, text: string): boolean
    /** In secure contexts alone. */
    readonly locks?: Locks
  }
  readonly BroadcastChannel?: new (name: string) => Channel
  readonly crypto?: { randomUUID(): string }
  readonly performance?: { getEntries(): readonly Loaded[] }
  readonly atob?: (base64: string) => string
}

export interface Locks {
  request(
    name: string,
    options: { readonly steal?: boolean; readonly signal?: unknown },
    held: () => Promise<void>,
  ): Promise<unknown>
}

export interface Channel {
  addEventListener(type: 'message', fn: (event: { readonly data: unknown }) => void): void
  postMessage(message: unknown): void
  close(): void
}

/** What the page has loaded. */
export interface Loaded {
  /** The address. */
  readonly name: string
  readonly nextHopProtocol?: string | undefined
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
  /** For event streams, their tabs, and following the page. */
  readonly platform: Platform
  /** Null outside a page: then nothing is idle, away, or restored. */
  readonly page: Page | null
  /** Milliseconds that only go forward. */
  readonly now: () => number
  readonly setTimer: (fn: () => void, ms: number) => unknown
  readonly clearTimer: (timer: unknown) => void
  /** In [0, 1). */
  readonly random: () => number
  readonly report: Report
  /** To share event streams with. Left out: the tabs of the `platform`, where they are in each other's way. */
  readonly tabs?: Tabs | null
  /** Base for a relative `url`, without a slash at its end, if there is one. */
  readonly origin: string | null
}
