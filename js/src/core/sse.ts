import type { Query } from './endpoint.ts'
import type { Environment, HttpResponse } from './environment.ts'
import { RollcallError, textOf } from './error.ts'
import { decodeEvent, EventParser } from './eventstream.ts'
import { type Frame, isRaw, type Raw } from './frame.ts'
import { fine, openShared } from './shared.ts'
import {
  type Answer,
  type Cause,
  closed,
  type Entry,
  type Inquiry,
  identity,
  type Message,
  type Share,
  type Stream,
  type StreamRequest,
} from './stream.ts'
import { streamTabs } from './tabs.ts'

/**
 * Opens a stream of server-sent events by fetch, which, unlike EventSource, can send a token and see
 * a status. Each `beat` is answered from its handler: the server drives, so no page timer is needed.
 */
export function openSse(request: StreamRequest): Stream {
  return new SseStream(request)
}

/** How the tabs of a browser share one stream to `address` unless the client was told otherwise; null: they do not. */
export function shareSse(environment: Environment, address: string): Share | null {
  const tabs = streamTabs(environment, address)
  return tabs && ((request, open, transport) => openShared(request, tabs, open, transport))
}

class SseStream implements Stream {
  readonly transport = 'sse'
  readonly #request: StreamRequest
  readonly #abort: { readonly signal: unknown; abort(): void }
  readonly #parser: EventParser
  readonly #named = new Map<string, Entry>()
  /** Rooms that were left and are yet to be said, each with who is told the answer. */
  readonly #leaving = new Map<string, (answer: Answer) => void>()
  /** Rooms that are being entered in two steps: what is set meanwhile comes after. */
  readonly #entering = new Map<string, Promise<Answer>>()
  readonly #observing: boolean
  readonly #single: Entry | null
  #connection = ''
  #resume = ''
  #frames: Frame[] = []
  #ended = false

  constructor(request: StreamRequest) {
    this.#request = request
    this.#abort = new request.environment.platform.AbortController()
    for (const entry of request.entries) this.#named.set(entry.room, entry)
    this.#single = request.entries.length === 1 ? (request.entries[0] ?? null) : null
    // The address speaks for all rooms: one observed room makes the stream an observer's, and the
    // rooms to be present in are then joined one by one.
    this.#observing = request.entries.some((entry) => entry.wish.observe)
    this.#parser = new EventParser(({ event, data }) => this.#take(event, data))
    void this.#run()
  }

  get eventId(): string | null {
    return this.#parser.lastEventId
  }

  takes(entry: Entry): boolean {
    return this.#named.has(entry.room) || !entry.wish.observe
  }

  async join(entry: Entry, resumed: boolean): Promise<Answer> {
    const { room, wish } = entry
    const named = this.#named.get(room)
    this.#named.set(room, entry)
    this.#sayLeft()
    if (wish.observe) return fine
    const whole = { status: wish.status, ...(wish.data === null ? {} : { data: wish.data }) }
    if (named === undefined || this.#observing) {
      const place = this.#place(room)
      if (!resumed || wish.data === null) return this.#call('PUT', place, whole)
      // A known connection merges what it is given into what it has, so keys we removed would live on.
      const entering = this.#call('PUT', place, { status: wish.status }).then((answer) =>
        answer.ok ? this.#call('PATCH', place, { ...whole, replace: true }) : answer,
      )
      this.#entering.set(room, entering)
      return entering.finally(() => this.#entering.delete(room))
    }
    const said = named.wish.status === this.#status() && named.wish.status === wish.status
    const dataSaid = wish.data === null || (this.#saysData() && named.wish.data === wish.data)
    if (said && dataSaid) return fine
    const change = dataSaid ? { status: wish.status } : { ...whole, replace: true }
    return this.ask({ type: 'set', room, ...change })
  }

  /** Each message is a call of its own name; signals of one moment go together. */
  ask(...messages: readonly Message[]): Promise<Answer> {
    const [first] = messages as readonly [Message]
    const { type, room = '', page, ...fields } = first
    const place = this.#place(room)
    switch (type) {
      case 'set': {
        const entering = this.#entering.get(room)
        const set = () => this.#call('PATCH', place, fields)
        return entering === undefined ? set() : entering.then(set)
      }
      case 'leave':
        this.#named.delete(room)
        return new Promise((resolve) => {
          this.#leaving.set(room, resolve)
          // A moment later: an end of the stream that follows says it too.
          void Promise.resolve().then(() => this.#sayLeft())
        })
      case 'signal': {
        const signals = messages.map(({ type: _, room: __, ...signal }) => signal)
        return this.#call('POST', [...place, 'signals'], signals.length === 1 ? fields : signals)
      }
      case 'contacts':
        return this.#call('PUT', [...place, 'contacts'], fields)
      case 'page':
        return this.#call('PUT', [...place, 'pages', String(page)], fields)
      case 'closePage':
        return this.#call('DELETE', [...place, 'pages', String(page)], null)
      case 'auth':
        return this.#call('POST', ['connections', this.#connection, 'auth'], fields)
      case 'users':
        return this.#call('PUT', ['connections', this.#connection, 'users'], fields)
    }
  }

  /** What was left is said before anything else is, and with the next beat if it did not get through. */
  #sayLeft(): void {
    for (const [room, resolve] of this.#leaving) {
      void this.#call('DELETE', this.#place(room), null).then((answer) => {
        const again = !answer.ok && answer.error.retry && !this.#ended && !this.#named.has(room)
        if (again) this.#leaving.set(room, resolve)
        else resolve(answer)
      })
    }
    this.#leaving.clear()
  }

  tell(...messages: readonly (Message | Inquiry)[]): boolean {
    for (const message of messages) {
      // Frames come as the server has them to say.
      if (message.type === 'snapshot' || message.type === 'ping') return false
      void this.ask(message)
    }
    return true
  }

  close(how: 'left' | 'closing' | 'cut'): void {
    if (this.#ended) return
    if (how !== 'left') this.#sayLeft()
    else if (this.#connection !== '') void this.#prove('release', {}, true)
    this.#ended = true
    this.#abort.abort()
  }

  async #run(): Promise<void> {
    try {
      const response = await this.#fetchStream()
      if (this.#ended) return
      if (response.status !== 200 || response.body === null) {
        const { status, headers } = response
        this.#end({ type: 'status', status, retryAfter: headers.get('Retry-After') })
        return
      }
      const reader = response.body.getReader()
      const decoder = new this.#request.environment.platform.TextDecoder()
      for (;;) {
        const { done, value } = await reader.read()
        if (this.#ended) {
          void reader.cancel().catch(() => {})
          return
        }
        if (value !== undefined) this.#push(decoder.decode(value, { stream: true }))
        if (done) break
      }
      this.#end({ type: 'cut', message: 'the stream ended' })
    } catch (error) {
      this.#end({ type: 'cut', message: textOf(error) })
    }
  }

  #fetchStream(): Promise<HttpResponse> {
    const { environment, endpoint, token, credentials, held, entries } = this.#request
    const { room, wish, since } = this.#single ?? {}
    const query: Query = [
      ...(room === undefined ? entries.map((entry) => ['room', entry.room] as const) : []),
      ['beat', '1'],
      this.#observing ? ['observe', '1'] : ['status', this.#status()],
      ['since', since ? `${since.epoch}.${since.version}` : undefined],
      ['data', wish && this.#saysData() ? JSON.stringify(wish.data) : undefined],
      ...identity(this.#request),
    ]
    const headers: Record<string, string> = { Accept: 'text/event-stream' }
    if (token !== null) headers.Authorization = `Bearer ${token}`
    // An event id claims the state of every room of the stream, so it must be true for every one.
    const claims = room === undefined && entries.every(({ since }) => since !== null)
    if (held?.eventId && claims) headers['Last-Event-ID'] = held.eventId
    const path = room === undefined ? ['stream'] : ['rooms', room, 'stream']
    return environment.platform.fetch(endpoint(path, query), {
      method: 'GET',
      headers,
      signal: this.#abort.signal,
      cache: 'no-store',
      credentials,
    })
  }

  #push(text: string): void {
    this.#frames = []
    this.#parser.push(text)
    const frames = this.#frames
    this.#frames = []
    // Also with no frame in it: a comment is a sign of life.
    this.#request.onFrames(frames)
  }

  #take(event: string, data: string): void {
    const frame = decodeEvent(event, data, this.#single?.room ?? null)
    if (frame === null) return
    if (frame.type === 'ready') {
      this.#connection = frame.connection
      this.#resume = frame.resume
    }
    // To enter there again is a call of its own.
    if (frame.type === 'ended') this.#named.delete(frame.room)
    if (frame.type === 'beat') {
      void this.#answerBeat(frame.fields)
      this.#sayLeft()
    }
    this.#frames.push(frame)
  }

  async #answerBeat({ n }: Raw): Promise<void> {
    const status = await this.#prove('beat', { n }, false)
    // The lease is gone, so this stream shows a room that we are not in: a new one enters again.
    if (status === 410) this.#end({ type: 'cut', message: 'the lease ended' })
  }

  /** A call proved by `resume` in the body: as text/plain it needs no preflight on another origin. */
  async #prove(what: 'beat' | 'release', fields: object, keepalive: boolean): Promise<number> {
    const { environment, endpoint, credentials } = this.#request
    try {
      const response = await environment.platform.fetch(endpoint(['connections', this.#connection, what]), {
        method: 'POST',
        headers: { 'Content-Type': 'text/plain;charset=UTF-8' },
        body: JSON.stringify({ ...fields, resume: this.#resume }),
        keepalive,
        credentials,
      })
      return response.status
    } catch {
      // The network is gone; the silence that follows will say so.
      return 0
    }
  }

  async #call(method: string, path: readonly string[], body: object | null): Promise<Answer> {
    const { environment, endpoint, credentials } = this.#request
    if (this.#connection === '' || this.#ended) return closed()
    try {
      const response = await environment.platform.fetch(endpoint(path), {
        method,
        headers: {
          'Rollcall-Resume': this.#resume,
          ...(body === null ? {} : { 'Content-Type': 'application/json' }),
        },
        ...(body === null ? {} : { body: JSON.stringify(body) }),
        keepalive: method === 'DELETE',
        credentials,
      })
      const answer = response.status === 204 ? {} : await response.json().catch(() => ({}))
      return this.#judge(response.status, isRaw(answer) ? answer : {})
    } catch {
      return closed()
    }
  }

  #judge(status: number, fields: Raw): Answer {
    if (status >= 200 && status < 300) return { ok: true, fields }
    if (status === 410) this.#end({ type: 'cut', message: 'the lease ended' })
    const code = typeof fields.code === 'string' ? fields.code : `http_${status}`
    const detail = typeof fields.detail === 'string' ? fields.detail : `the server answered ${status}`
    const retry = status === 410 || status === 429 || status >= 500
    return { ok: false, error: new RollcallError(code, detail, retry) }
  }

  #end(cause: Cause): void {
    if (this.#ended) return
    this.#ended = true
    this.#abort.abort()
    this.#request.onEnd(cause)
  }

  #place(room: string): string[] {
    return ['rooms', room, 'connections', this.#connection]
  }

  /** The one status that fits into the address. */
  #status(): Entry['wish']['status'] {
    return this.#request.entries.find(({ wish }) => !wish.observe)?.wish.status ?? 'active'
  }

  /** Data goes into the address only where it is the whole of it: one room, and nothing to merge with. */
  #saysData(): boolean {
    return (
      this.#single !== null &&
      !this.#observing &&
      this.#request.held === null &&
      this.#single.wish.data !== null
    )
  }
}
