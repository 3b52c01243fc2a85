import type { Socket } from './environment.ts'
import { RollcallError, textOf } from './error.ts'
import { decodeFrames } from './frame.ts'
import { type Answer, type Cause, closed, identity, type Stream, type StreamRequest } from './stream.ts'

const subprotocol = 'rollcall.v1'
/** The characters that a subprotocol may have (RFC 7230 token), of which a JWT uses a few. */
const protocolToken = /^[\w.~+-]+$/
const open = 1

/** Opens a stream over WebSocket. A failure to open is an ending like any other. */
export function openWebSocket(request: StreamRequest): Stream {
  const { environment, endpoint, token, onFrames, onEnd } = request
  const waiting = new Map<number | null, (answer: Answer) => void>()
  let socket: Socket | undefined
  let lastId = 0
  let ended = false

  const send = (...messages: readonly object[]) => {
    if (socket?.readyState === open)
      socket.send(JSON.stringify(messages.length === 1 ? messages[0] : messages))
  }

  /** Sends one message, or several as one. The answer is that to the last, or the first refusal. */
  const ask = (...messages: readonly object[]) =>
    new Promise<Answer>((resolve) => {
      if (socket?.readyState !== open) {
        resolve(closed())
        return
      }
      let left = messages.length
      const settle = (answer: Answer) => {
        left--
        // What follows a refusal cannot have worked.
        if (left === 0 || !answer.ok) resolve(answer)
      }
      const numbered = messages.map((message) => {
        lastId++
        waiting.set(lastId, settle)
        return { ...message, id: lastId }
      })
      send(...numbered)
    })

  const finish = () => {
    ended = true
    for (const settle of waiting.values()) settle(closed())
  }
  const end = (cause: Cause) => {
    if (ended) return
    finish()
    onEnd(cause)
  }

  const inProtocol = token !== null && protocolToken.test(token)
  try {
    const address = endpoint(['ws'], identity(request))
    const protocols = inProtocol ? [subprotocol, `bearer.${token}`] : [subprotocol]
    socket = environment.openSocket?.(address.replace(/^http/i, 'ws'), protocols)
    if (socket === undefined) throw new Error('no WebSocket here')
    socket.addEventListener('open', () => {
      if (token !== null && !inProtocol) send({ type: 'auth', token })
    })
    socket.addEventListener('message', ({ data }) => {
      if (ended || typeof data !== 'string') return
      const frames = decodeFrames(data)
      for (const frame of frames) {
        if (!('id' in frame)) continue
        waiting.get(frame.id)?.(
          frame.type === 'ok'
            ? { ok: true, fields: frame.fields }
            : { ok: false, error: new RollcallError(frame.code, frame.message, frame.retry) },
        )
        waiting.delete(frame.id)
      }
      onFrames(frames)
    })
    socket.addEventListener('close', ({ code, reason }) => end({ type: 'close', code, reason }))
  } catch (error) {
    // Told later, as every ending is: the caller does not hold the stream yet.
    Promise.resolve().then(() => end({ type: 'cut', message: textOf(error) }))
  }

  return {
    transport: 'websocket',
    takes: () => true,
    join({ room, wish, since }, resumed) {
      const { observe, status, data } = wish
      const join = { type: 'join', room, since: since ?? undefined, ...(observe ? { observe } : { status }) }
      if (observe || data === null) return ask(join)
      // A known connection merges what it is given into what it has, so keys we removed would live on.
      if (resumed) return ask(join, { type: 'set', room, data, replace: true })
      return ask({ ...join, data })
    },
    ask,
    tell(...messages) {
      send(...messages)
      return true
    },
    close(how) {
      if (ended) return
      finish()
      // A page cannot drop a socket without a close frame; leaving out the code is as near as it gets.
      if (how === 'cut') socket?.close()
      else socket?.close(1000)
    },
  }
}
