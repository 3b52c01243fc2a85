import { cut, judgeClose } from './ending.ts'
import { guestQuery } from './endpoint.ts'
import type { Socket } from './environment.ts'
import { RollcallError } from './error.ts'
import { decodeFrames, type Frame } from './frame.ts'
import type { SignalChange } from './signals.ts'
import type { Answer, Entry, SetChange, Stream, StreamRequest } from './stream.ts'

const subprotocol = 'rollcall.v1'
/** The characters that a subprotocol may have (RFC 7230 token), of which a JWT uses a few. */
const protocolToken = /^[\w.~+-]+$/
const open = 1

/** Opens a stream over WebSocket. A failure to open is an ending like any other. */
export function openWebSocket(request: StreamRequest): Stream {
  return new WebSocketStream(request)
}

class WebSocketStream implements Stream {
  readonly transport = 'websocket'
  readonly eventId = null
  readonly #request: StreamRequest
  readonly #socket: Socket | null
  readonly #waiting = new Map<number, (answer: Answer) => void>()
  readonly #joined = new Set<string>()
  readonly #signalled = new Set<string>()
  #nextId = 1
  #ended = false

  constructor(request: StreamRequest) {
    this.#request = request
    this.#socket = this.#connect()
  }

  takes(): boolean {
    return true
  }

  join(entry: Entry, resumed: boolean): Promise<Answer> {
    const { room, wish, since } = entry
    this.#joined.add(room)
    const fields = {
      ...(wish.observe ? { observe: true } : { status: wish.status }),
      ...(since === null ? {} : { since }),
    }
    if (wish.observe || wish.data === null) return this.#ask({ type: 'join', room, ...fields })
    // A known connection merges what it is given into what it has, so keys we removed would live on.
    if (!resumed) return this.#ask({ type: 'join', room, ...fields, data: wish.data })
    return this.#ask({ type: 'join', room, ...fields }, { type: 'set', room, data: wish.data, replace: true })
  }

  set(room: string, change: SetChange): Promise<Answer> {
    return this.#ask({ type: 'set', room, ...change })
  }

  async signal(room: string, changes: readonly SignalChange[]): Promise<Answer> {
    const messages = changes.map((change) => ({ type: 'signal', room, ...change }))
    // An answer to each would double the traffic: the first one tells whether we may.
    if (!this.#signalled.has(room)) {
      this.#signalled.add(room)
      return this.#ask(...messages)
    }
    this.#send(messages.length === 1 ? (messages[0] as object) : messages)
    return { ok: true, member: null }
  }

  leave(room: string): void {
    this.#joined.delete(room)
    this.#send({ type: 'leave', room })
  }

  snapshot(room: string): boolean {
    this.#send({ type: 'snapshot', room })
    return true
  }

  auth(token: string): void {
    this.#send({ type: 'auth', token })
  }

  probe(): boolean {
    this.#send({ type: 'ping' })
    return true
  }

  close(how: 'left' | 'closing' | 'cut'): void {
    if (this.#ended) return
    // Without a leave, a close says *closed* and the close grace runs; with one, everyone knows at once.
    if (how === 'left' && this.#joined.size > 0) {
      this.#send([...this.#joined].map((room) => ({ type: 'leave', room })))
    }
    this.#finish()
    // A page cannot drop a socket without a close frame; leaving out the code is as near as it gets.
    if (how === 'cut') this.#socket?.close()
    else this.#socket?.close(1000)
  }

  #connect(): Socket | null {
    const { environment, endpoint, token, guest, held } = this.#request
    const protocols = [subprotocol]
    const inProtocol = token !== null && protocolToken.test(token)
    if (inProtocol) protocols.push(`bearer.${token}`)
    const query = [
      ...(token === null ? guestQuery(guest) : []),
      ...(held === null ? [] : ([['resume', held.resume]] as const)),
    ]
    try {
      const socket = environment.openSocket?.(endpoint.socket(['ws'], query), protocols)
      if (socket === undefined) throw new Error('no WebSocket here')
      socket.addEventListener('open', () => {
        if (token !== null && !inProtocol) this.#send({ type: 'auth', token })
      })
      socket.addEventListener('message', ({ data }) => this.#receive(data))
      socket.addEventListener('close', ({ code, reason }) => this.#fail(code, reason))
      return socket
    } catch (error) {
      // Told later, as every ending is: the caller does not hold the stream yet.
      Promise.resolve().then(() => {
        if (this.#ended) return
        this.#finish()
        this.#request.onEnd(cut(error instanceof Error ? error.message : String(error)))
      })
      return null
    }
  }

  #receive(data: unknown): void {
    if (this.#ended || typeof data !== 'string') return
    const frames: Frame[] = []
    for (const frame of decodeFrames(data)) {
      if (frame.type === 'ok') this.#settle(frame.id, { ok: true, member: frame.member })
      else if (frame.type === 'error' && frame.id !== null && this.#waiting.has(frame.id)) {
        this.#settle(frame.id, {
          ok: false,
          error: new RollcallError(frame.code, frame.message, frame.retry),
        })
      } else frames.push(frame)
    }
    this.#request.onFrames(frames)
  }

  #fail(code: number, reason: string): void {
    if (this.#ended) return
    this.#finish()
    this.#request.onEnd(judgeClose(code, reason))
  }

  /** Sends one message, or several as one, and waits for the answer to the last. */
  #ask(...messages: readonly Record<string, unknown>[]): Promise<Answer> {
    return new Promise((resolve) => {
      if (this.#ended || this.#socket?.readyState !== open) {
        resolve(closed())
        return
      }
      const sent = messages.map((message) => ({ ...message, id: this.#nextId++ }))
      const last = this.#nextId - 1
      this.#waiting.set(last, resolve)
      // An error of an earlier message is the answer: what follows cannot have worked.
      for (let id = last - sent.length + 1; id < last; id++) {
        this.#waiting.set(id, (answer) => {
          if (!answer.ok) this.#settle(last, answer)
        })
      }
      this.#send(sent.length === 1 ? (sent[0] as object) : sent)
    })
  }

  #settle(id: number, answer: Answer): void {
    const resolve = this.#waiting.get(id)
    this.#waiting.delete(id)
    resolve?.(answer)
  }

  #send(message: object): void {
    if (this.#socket?.readyState === open) this.#socket.send(JSON.stringify(message))
  }

  #finish(): void {
    this.#ended = true
    for (const resolve of this.#waiting.values()) resolve(closed())
    this.#waiting.clear()
  }
}

export function closed(): Answer {
  return {
    ok: false,
    error: new RollcallError('closed', 'rollcall: the connection closed before the answer', true),
  }
}
