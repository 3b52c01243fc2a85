import WebSocket from 'ws'
import type { Environment, HttpRequest, HttpResponse, Socket } from '../src/core/environment.ts'

/** The server that the tests of the project `server` are run against. */
export const url = process.env.ROLLCALL_URL ?? missing()

/** Its lease: `ROLLCALL_LEASE_MS` where it was started with another than the default. */
export const leaseMs = Number(process.env.ROLLCALL_LEASE_MS ?? 30_000)

function missing(): never {
  throw new Error('ROLLCALL_URL is not set: these tests need a `rollcall dev`, which script/js starts')
}

/** The world of a client on Node. `onStream` is told of each stream how to end it as a broken cable does. */
export function nodeEnvironment(onStream: (cut: () => void) => void = () => {}): Environment {
  return {
    openSocket: (address, protocols) => {
      const socket = new WebSocket(address, protocols)
      onStream(() => socket.terminate())
      return socket as unknown as Socket
    },
    platform: {
      fetch: (address, request: HttpRequest) =>
        fetch(address, request as RequestInit) as unknown as Promise<HttpResponse>,
      AbortController: class extends AbortController {
        constructor() {
          super()
          onStream(() => this.abort())
        }
      },
      TextDecoder,
    },
    page: null,
    now: () => performance.now(),
    setTimer: (fn, ms) => setTimeout(fn, ms),
    clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout),
    random: () => Math.random(),
    report: (error) => {
      throw error
    },
    origin: null,
  }
}
