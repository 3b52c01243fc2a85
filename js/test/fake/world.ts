import { vi } from 'vitest'
import { Client, type ClientOptions } from '../../src/core/client.ts'
import type { Environment, Page } from '../../src/core/environment.ts'
import { FakeHttp, userOf } from './fetch.ts'
import { type FakeOptions, FakeServer } from './server.ts'
import { FakeSocket } from './socket.ts'

export class FakePage implements Page {
  isHidden = false
  readonly #fns = {
    input: new Set<() => void>(),
    visibility: new Set<() => void>(),
    hide: new Set<() => void>(),
  }
  readonly #wake = new Set<(why: 'restored' | 'online' | 'resumed') => void>()

  hidden = () => this.isHidden
  onInput = (fn: () => void) => add(this.#fns.input, fn)
  onVisibility = (fn: () => void) => add(this.#fns.visibility, fn)
  onHide = (fn: () => void) => add(this.#fns.hide, fn)
  onWake = (fn: (why: 'restored' | 'online' | 'resumed') => void) => add(this.#wake, fn)

  input(): void {
    for (const fn of this.#fns.input) fn()
  }
  setHidden(hidden: boolean): void {
    this.isHidden = hidden
    for (const fn of this.#fns.visibility) fn()
  }
  hide(): void {
    for (const fn of this.#fns.hide) fn()
  }
  wake(why: 'restored' | 'online' | 'resumed'): void {
    for (const fn of this.#wake) fn(why)
  }
  get listeners(): number {
    return this.#fns.input.size + this.#fns.visibility.size + this.#fns.hide.size + this.#wake.size
  }
}

function add<T>(set: Set<T>, item: T): () => void {
  set.add(item)
  return () => set.delete(item)
}

/** A fake server with virtual time, and clients of it. Ends with `world.end()`. */
export class World {
  readonly server: FakeServer
  readonly http: FakeHttp
  readonly sockets: FakeSocket[] = []
  readonly errors: unknown[] = []
  readonly beacons: { url: string; text: string }[] = []
  /** What the next handshakes do: a close code, or nothing to accept. */
  refuse: number[] = []
  /** Handshakes hang. */
  hang = false
  random = 0.5
  /** Clients' timers never fire, as in a hidden tab. */
  stalled = false
  readonly opens: number[] = []

  constructor(options: FakeOptions = {}) {
    vi.useFakeTimers()
    this.server = new FakeServer(options).start()
    this.http = new FakeHttp(this.server)
  }

  environment(page: FakePage | null = null, sockets = true): Environment {
    return {
      openSocket: sockets ? (url, protocols) => this.#openSocket(url, protocols) : null,
      fetch: this.http.fetch,
      newAbort: () => new AbortController(),
      newDecoder: () => new TextDecoder(),
      sendBeacon: (url, text) => {
        this.beacons.push({ url, text })
        void this.http.fetch(url, { method: 'POST', headers: {}, body: text })
        return true
      },
      page,
      now: () => Date.now(),
      setTimer: (fn, ms) => (this.stalled ? -1 : setTimeout(fn, ms)),
      clearTimer: (timer) => clearTimeout(timer as ReturnType<typeof setTimeout>),
      random: () => this.random,
      report: (error) => this.errors.push(error),
      origin: 'http://fake.test',
    }
  }

  client(user: string, options: ClientOptions = {}, page: FakePage | null = null): Client {
    const who = options.auth === undefined ? { guest: { user, name: user } } : {}
    return new Client({ ...who, ...options }, this.environment(page))
  }

  /** Lets time pass; 0 = what is under way. */
  async pass(ms = 0): Promise<void> {
    await vi.advanceTimersByTimeAsync(ms)
    // Promises of streams need a few turns of their own.
    for (let i = 0; i < 20; i++) await Promise.resolve()
  }

  get socket(): FakeSocket {
    return this.sockets.at(-1) as FakeSocket
  }

  users(room: string): string[] {
    return this.server
      .roster(room)
      .map(({ user }) => user)
      .sort()
  }

  end(): void {
    this.server.stop()
    vi.useRealTimers()
  }

  #openSocket(url: string, protocols: string[]): FakeSocket {
    const socket = new FakeSocket(this.server, url, protocols)
    this.sockets.push(socket)
    this.opens.push(Date.now())
    const bearer = protocols.find((protocol) => protocol.startsWith('bearer.'))
    const user = socket.url.searchParams.get('user') ?? userOf(bearer?.slice('bearer.'.length))
    if (this.hang) return socket
    Promise.resolve().then(() => {
      const code = this.refuse.shift()
      if (code !== undefined) socket.end(code, null)
      else socket.accept(user, { name: socket.url.searchParams.get('name') ?? user })
    })
    return socket
  }
}
