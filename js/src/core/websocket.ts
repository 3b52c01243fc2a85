import { guestQuery } from './endpoint.ts'
import type { Socket } from './environment.ts'
import { RollcallError, textOf } from './error.ts'
import { decodeFrames, type Frame } from './frame.ts'
import {
  type Answer,
  closed,
  type Entry,
  fine,
  type Message,
  type Stream,
  type StreamRequest,
} from './stream.ts'

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
    const join = {
      type: 'join',
      room,
      ...(wish.observe ? { observe: true } : { status: wish.status }),
      ...(since === null ? {} : { since }),
    }
    if (wish.observe || wish.data === null) return this.#ask([join])
    // A known connection merges what it is given into what it has, so keys we removed would live on.
    if (!resumed) return this.#ask([{ ...join, data: wish.data }])
    return this.#ask([join, { type: 'set', room, data: wish.data, replace: true }])
  }

  async ask(...messages: readonly Message[]): Promise<Answer> {
    const { type, room } = messages[0] as Message
    // An answer to each signal would double the traffic: the first one tells whether we may.
    if (type !== 'signal' || !this.#signalled.has(room as string)) {
      if (type === 'signal') this.#signalled.add(room as string)
      return this.#ask(messages)
    }
    this.#send(messages)
    return fine
  }

  tell(...messages: readonly Message[]): void {
    for (const { type, room } of messages) if (type === 'leave') this.#joined.delete(room as string)
    this.#send(messages)
  }

  snapshot(room: string): boolean {
    this.#send([{ type: 'snapshot', room }])
    return true
  }

  probe(): boolean {
    this.#send([{ type: 'ping' }])
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
        if (token !== null && !inProtocol) this.#send([{ type: 'auth', token }])
      })
      socket.addEventListener('message', ({ data }) => this.#receive(data))
      socket.addEventListener('close', ({ code, reason }) => this.#fail(code, reason))
      return socket
    } catch (error) {
      // Told later, as every ending is: the caller does not hold the stream yet.
      Promise.resolve().then(() => {
        if (this.#ended) return
        this.#finish()
        this.#request.onEnd({ type: 'cut', message: textOf(error) })
      })
      return null
    }
  }

  #receive(data: unknown): void {
    if (this.#ended || typeof data !== 'string') return
    const frames: Frame[] = []
    for (const frame of decodeFrames(data)) {
      if (frame.type === 'ok') this.#settle(frame.id, { ok: true, fields: frame.fields })
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
    this.#request.onEnd({ type: 'close', code, reason })
  }

  /** Sends one message, or several as one, and waits for the answer to the last. */
  #ask(messages: readonly object[]): Promise<Answer> {
    return new Promise((resolve) => {
      if (this.#ended || this.#socket?.readyState !== open) {
        resolve(closed())
        return
      }
      const last = this.#nextId + messages.length - 1
      const sent = messages.map((message) => {
        const id = this.#nextId++
        // An error of an earlier message is the answer: what follows cannot have worked.
        this.#waiting.set(id, (answer) => {
          if (id === last) resolve(answer)
          else if (!answer.ok) this.#settle(last, answer)
        })
        return { ...message, id }
      })
      this.#send(sent)
    })
  }

  #settle(id: number, answer: Answer): void {
    const resolve = this.#waiting.get(id)
    this.#waiting.delete(id)
    resolve?.(answer)
  }

  #send(messages: readonly object[]): void {
    if (this.#socket?.readyState !== open) return
    this.#socket.send(JSON.stringify(messages.length === 1 ? messages[0] : messages))
  }

  #finish(): void {
    this.#ended = true
    for (const resolve of this.#waiting.values()) resolve(closed())
    this.#waiting.clear()
  }
}
