import { type Client, type ClientOptions, createClient } from '../core/client.ts'
import type { Environment, Page } from '../core/environment.ts'
import { preload } from '../core/parts.ts'
import { FakeHttp, userOf } from './fetch.ts'
import { type FakeOptions, FakeServer } from './server.ts'
import { FakeSocket } from './socket.ts'

// Virtual time would stand still while code is fetched.
await preload('sse', 'signals', 'upkeep', 'windows')

/** A fake server and the way to it: environments for clients, whose links can be cut and refused. */
export class FakeLink {
  readonly server: FakeServer
  readonly http: FakeHttp
  readonly sockets: FakeSocket[] = []
  /** What clients reported: exceptions of the application's own callbacks. */
  readonly errors: unknown[] = []
  readonly beacons: { url: string; text: string }[] = []
  /** What the next handshakes do: a close code, or nothing to accept. */
  refuse: number[] = []
  /** Handshakes hang. */
  hang = false
  random = 0.5
  /** Clients' timers never fire, as in a hidden tab. */
  stalled = false
  /** When each handshake began. */
  readonly opens: number[] = []

  constructor(options: FakeOptions = {}) {
    this.server = new FakeServer(options).start()
    this.http = new FakeHttp(this.server)
  }

  environment(page: Page | null = null, sockets = true): Environment {
    const sendBeacon = (url: string, text: string) => {
      this.beacons.push({ url, text })
      // Nobody is there any more to hear that it did not get through.
      this.http.fetch(url, { method: 'POST', headers: {}, body: text }).catch(() => {})
      return true
    }
    return {
      openSocket: sockets ? (url, protocols) => this.#openSocket(url, protocols) : null,
      platform: { fetch: this.http.fetch, AbortController, TextDecoder, navigator: { sendBeacon } },
      page,
      now: () => Date.now(),
      setTimer: (fn, ms) => (this.stalled ? -1 : setTimeout(fn, ms)),
      clearTimer: (timer) => clearTimeout(timer as ReturnType<typeof setTimeout>),
      random: () => this.random,
      report: (error) => this.errors.push(error),
      origin: 'http://fake.test',
    }
  }

  client(user: string, options: ClientOptions = {}, page: Page | null = null): Client {
    const who = options.auth === undefined ? { guest: { user, name: user } } : {}
    return createClient({ ...who, ...options }, this.environment(page))
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
      if (code !== undefined || this.http.down) socket.end(code ?? 1006, null)
      else socket.accept(user, { name: socket.url.searchParams.get('name') ?? user })
    })
    return socket
  }
}
