import type { HttpRequest, HttpResponse } from '../core/environment.ts'
import { enterStream, formatEvent, rest } from './rest.ts'
import type { FakeConnection, FakeServer, Port } from './server.ts'

interface Refusal {
  status: number
  retryAfter?: string
}

/** An SSE stream in memory: a port on one side, a fetch response on the other. */
export class FakeStream implements Port {
  connection: FakeConnection | null = null
  cut = false
  readonly #server: FakeServer
  #chunks: Uint8Array[] = []
  #closed = false
  #wake: (() => void) | null = null
  #eventId = 0

  constructor(server: FakeServer) {
    this.#server = server
  }

  send(frames: object[]): void {
    this.raw(`${frames.map(formatEvent).join('')}id: ${++this.#eventId}\n\n`)
  }

  raw(text: string): void {
    if (this.#closed || this.cut) return
    this.#chunks.push(new TextEncoder().encode(text))
    this.#wake?.()
  }

  end(_code: number, frame: object | null): void {
    if (frame) this.send([frame])
    if (this.cut) return
    this.#closed = true
    if (this.connection) this.#server.gone(this.connection, this, false)
    this.#wake?.()
  }

  pongs(): boolean {
    return false
  }

  response(signal: AbortSignal): HttpResponse {
    signal.addEventListener('abort', () => {
      if (this.#closed) return
      this.#closed = true
      if (this.connection && !this.cut) this.#server.gone(this.connection, this, true)
      this.#wake?.()
    })
    const read = async () => {
      while (this.#chunks.length === 0 && !this.#closed) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
      const value = this.#chunks.shift()
      return value ? { done: false, value } : { done: true }
    }
    return {
      status: 200,
      headers: { get: () => null },
      body: { getReader: () => ({ read, cancel: async () => {} }) },
      json: async () => ({}),
    }
  }
}

/** A fetch that reaches the fake server. `refuse` holds answers for the next stream openings. */
export class FakeHttp {
  readonly streams: FakeStream[] = []
  readonly opens: { at: number; url: URL; headers: Record<string, string> }[] = []
  refuse: Refusal[] = []
  down = false
  /** Holds back the answers of calls while set. */
  hold: (() => Promise<void>) | null = null
  readonly #server: FakeServer

  constructor(server: FakeServer) {
    this.#server = server
  }

  fetch = async (address: string, request: HttpRequest): Promise<HttpResponse> => {
    const url = new URL(address)
    const path = url.pathname.split('/').slice(2).map(decodeURIComponent)
    const streaming = path.at(-1) === 'stream'
    if (streaming) this.opens.push({ at: Date.now(), url, headers: { ...request.headers } })
    if (this.down) throw new TypeError('fetch failed')
    if (!streaming) {
      const body = request.body ? JSON.parse(request.body) : {}
      const secret = request.headers['Rollcall-Resume'] ?? ''
      const answer = rest(this.#server, request.method, path, body, secret)
      if (this.hold !== null) await this.hold()
      return respond(answer.status, null, answer.body ?? {})
    }
    const refusal = this.refuse.shift()
    if (refusal) return respond(refusal.status, refusal.retryAfter ?? null, {})
    const user = url.searchParams.get('user') ?? userOf(request.headers.Authorization)
    const stream = new FakeStream(this.#server)
    this.streams.push(stream)
    const response = stream.response(request.signal as AbortSignal)
    const info = { name: url.searchParams.get('name') ?? user }
    stream.connection = this.#server.open(user, info, url.searchParams.get('resume'), stream)
    enterStream(this.#server, stream.connection.id, url)
    return response
  }

  get newest(): FakeStream {
    return this.streams.at(-1) as FakeStream
  }
}

export function userOf(authorization: string | undefined): string {
  return authorization?.replace(/^Bearer /, '').split('.')[0] ?? 'guest'
}

function respond(status: number, retryAfter: string | null, body: object): HttpResponse {
  return {
    status,
    headers: { get: (name) => (name.toLowerCase() === 'retry-after' ? retryAfter : null) },
    body: null,
    json: async () => body,
  }
}
