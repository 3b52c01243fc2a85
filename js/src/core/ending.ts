import { RollcallError } from './error.ts'
import { positive, type Raw, toText } from './frame.ts'
import type { Cause } from './stream.ts'

/*
 * What the end of a stream means for the way back. One judgement for all transports: `again` with what
 * we hold, `fresh` without `resume` (someone else holds the connection now), `token` after one refresh
 * of the token, `handover` at once, for it was no failure, `stop` for good.
 */

export interface Ending {
  readonly verdict: 'again' | 'fresh' | 'token' | 'stop' | 'handover'
  /** The server's wish for the earliest return, or null. */
  readonly afterMs: number | null
  /** Random time to add: hints that everyone gets alike (Retry-After) need it, personal ones do not. */
  readonly spreadMs: number
  readonly error: RollcallError
}

export function judge(cause: Cause): Ending {
  switch (cause.type) {
    case 'bye':
      return judgeBye(cause.fields)
    case 'close':
      return judgeClose(cause.code, cause.reason)
    case 'status':
      return judgeStatus(cause.status, cause.retryAfter)
    case 'handover':
    case 'cut':
      return ending(cause.type === 'cut' ? 'again' : 'handover', 'unreachable', cause.message)
  }
}

function judgeBye(fields: Raw): Ending {
  const reason = toText(fields.reason)
  // Only an explicit null forbids the way back; a missing hint leaves the client its own back-off.
  const reconnectMs = fields.reconnectMs === null ? null : (positive(fields.reconnectMs) ?? 0)
  const message = `the server ended the connection: ${reason || 'no reason given'}`
  // Someone resumed this connection: come back as a new one, else the two would evict each other for ever.
  if (reason === 'replaced') return ending('fresh', 'replaced', message, reconnectMs)
  if (reason === 'token') return ending('token', 'unauthorized', message)
  if (reconnectMs === null) return ending('stop', reason || 'gone', message)
  return ending('again', reason || 'unavailable', message, reconnectMs)
}

function judgeClose(code: number, reason: string): Ending {
  const message = `connection closed: ${code}${reason === '' ? '' : ` ${reason}`}`
  if (code === 4409) return ending('fresh', 'replaced', message)
  if (code === 4401) return ending('token', 'unauthorized', message)
  if (code === 4403) return ending('stop', 'forbidden', message)
  if (code === 4413) return ending('stop', 'too_large', message)
  if (code >= 4400 && code < 4500) return ending('stop', 'bad_request', message)
  return ending('again', code >= 4500 && code < 4600 ? 'unavailable' : 'unreachable', message)
}

/** Judges an HTTP answer to the opening of a stream that is not 200. */
function judgeStatus(status: number, retryAfter: string | null): Ending {
  const message = `the server answered ${status}`
  switch (status) {
    case 401:
      return ending('token', 'unauthorized', message)
    case 204:
      // By the standard of event streams this says: do not come back.
      return ending('stop', 'gone', message)
    case 400:
    case 413:
      return ending('stop', 'bad_request', message)
    case 403:
      return ending('stop', 'forbidden', message)
    default: {
      const seconds = retryAfter === null ? Number.NaN : Number(retryAfter)
      const afterMs = Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : null
      const code = status === 429 ? 'rate_limited' : 'unavailable'
      return { ...ending('again', code, message, afterMs), spreadMs: (afterMs ?? 0) / 2 }
    }
  }
}

function ending(
  verdict: Ending['verdict'],
  code: string,
  message: string,
  afterMs: number | null = null,
): Ending {
  const error = new RollcallError(code, message, verdict !== 'stop')
  return { verdict, afterMs, spreadMs: 0, error }
}
