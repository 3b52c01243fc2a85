import { RollcallError } from './error.ts'
import { decodeFrames } from './frame.ts'
import { type Answer, closed, identity, type Stream, type StreamRequest } from './stream.ts'

const subprotocol = 'rollcall.v1'
/** The characters that a subprotocol may have (RFC 7230 token), of which a JWT uses a few. */
const protocolToken = /^[\w.~+-]+$/
const open = 1

/** Opens a stream over WebSocket. Throws where there is none, or none that takes the address. */
export function openWebSocket(request: StreamRequest): Stream {
  const { environment, endpoint, token, onFrames, onEnd } = request
  const inProtocol = token !== null && protocolToken.test(token)
  const protocols = inProtocol ? [subprotocol, `bearer.${token}`] : [subprotocol]
  const address = endpoint(['ws'], identity(request)).replace(/^http/i, 'ws')
  const socket = environment.openSocket?.(address, protocols)
  if (socket === undefined) throw new Error('no WebSocket here')
  const waiting = new Map<number | null, (answer: Answer) => void>()
  let lastId = 0
  let ended = false

  const send = (...messages: readonly object[]) => {
    if (socket.readyState === open)
      socket.send(JSON.stringify(messages.length === 1 ? messages[0] : messages))
  }

  /** Sends one message, or several as one. The answer is that to the last, or the first refusal. */
  const ask = (...messages: readonly object[]) =>
    new Promise<Answer>((resolve) => {
      if (socket.readyState !== open) {
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
  socket.addEventListener('close', ({ code, reason }) => {
    if (ended) return
    finish()
    onEnd({ type: 'close', code, reason })
  })

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
      finish()
      // A page cannot drop a socket without a close frame; leaving out the code is as near as it gets.
      socket.close(how === 'cut' ? undefined : 1000)
    },
  }
}
