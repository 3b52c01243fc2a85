import type { Socket, SocketEvents } from '../core/environment.ts'
import type { FakeConnection, FakeServer, Port } from './server.ts'
import { watch } from './watching.ts'

type Listener = (event: never) => void

/** Takes one WebSocket message of a client; both the fake socket and the real one in http.ts use it. */
export function takeMessage(server: FakeServer, connection: FakeConnection, text: string): void {
  const value = JSON.parse(text)
  for (const message of Array.isArray(value) ? value : [value]) {
    server.said.push({ connection: connection.id, ...message })
    const answer = (fields: object) => {
      if (message.id !== undefined) connection.port?.send([{ type: 'ok', id: message.id, ...fields }])
    }
    switch (message.type) {
      case 'join':
        answer({ member: server.join(connection, message.room, message) })
        break
      case 'set':
        answer({ member: server.set(connection, message.room, message) })
        break
      case 'signal':
        if (server.signal(connection, message.room, message)) answer({})
        else
          connection.port?.send([{ type: 'error', id: message.id, code: 'forbidden', message: 'no signals' }])
        break
      case 'page':
      case 'closePage':
      case 'contacts':
      case 'users': {
        const watched = watch(server, connection, message)
        if (watched === null) break
        if ('fields' in watched) answer(watched.fields)
        else connection.port?.send([{ type: 'error', id: message.id, retry: false, ...watched.refusal }])
        break
      }
      case 'leave':
        server.leave(connection, message.room)
        answer({})
        break
      case 'snapshot':
        connection.port?.send(server.state(message.room))
        break
      case 'ping':
        connection.port?.send([{ type: 'pong' }])
        break
    }
    connection.evidenceAt = Date.now()
  }
}

/** A WebSocket in memory. `cut` stops all traffic both ways without a word, as a lost network does. */
export class FakeSocket implements Socket, Port {
  readyState = 0
  cut = false
  connection: FakeConnection | null = null
  readonly url: URL
  readonly protocols: string[]
  readonly #server: FakeServer
  readonly #listeners = new Map<string, Listener[]>()

  constructor(server: FakeServer, url: string, protocols: string[]) {
    this.#server = server
    this.url = new URL(url)
    this.protocols = protocols
  }

  /** The handshake succeeds. */
  accept(user: string, info: object): void {
    if (this.readyState !== 0) return
    this.readyState = 1
    this.#emit('open', {})
    this.#server.open(user, info, this.url.searchParams.get('resume'), this)
  }

  send(payload: string | object[]): void {
    if (this.readyState !== 1 || this.cut) return
    if (typeof payload !== 'string') {
      this.#emit('message', { data: JSON.stringify(payload.length === 1 ? payload[0] : payload) })
    } else if (this.connection) {
      takeMessage(this.#server, this.connection, payload)
    }
  }

  /** The client closes. */
  close(code = 1005, reason = ''): void {
    if (this.readyState > 1) return
    this.readyState = 3
    if (this.connection && !this.cut) this.#server.gone(this.connection, this, true)
    this.#emit('close', { code, reason })
  }

  /** The server, or the network, ends it. */
  end(code: number, frame: object | null): void {
    if (this.readyState > 1) return
    if (frame) this.send([frame])
    this.readyState = 3
    if (this.connection) this.#server.gone(this.connection, this, false)
    if (!this.cut) this.#emit('close', { code, reason: '' })
  }

  opened(connection: FakeConnection): void {
    this.connection = connection
  }

  pongs(): boolean {
    return this.readyState === 1 && !this.cut
  }

  addEventListener<K extends keyof SocketEvents>(type: K, fn: (event: SocketEvents[K]) => void): void {
    this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), fn as Listener])
  }

  #emit<K extends keyof SocketEvents>(type: K, event: SocketEvents[K]): void {
    for (const fn of this.#listeners.get(type) ?? []) (fn as (event: SocketEvents[K]) => void)(event)
  }
}
