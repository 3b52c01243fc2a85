import { invalid } from './error.ts'
import { isRaw } from './frame.ts'
import { isStatus, type Json, type JsonObject, type Status } from './member.ts'

/** The server's limits, checked at the call so that a mistake is seen where it is made. */
export const maxDataBytes = 1024
export const maxDepth = 32

/**
 * A copy of what the application gave, as JSON will carry it. Throws on what JSON would silently
 * change: non-finite numbers (they turn into null), functions, symbols, big integers, cycles.
 */
export function checkData(value: unknown, what = 'data'): JsonObject {
  const copy = checkJson(value, what)
  if (!isRaw(copy)) throw invalid(`${what} must be an object`)
  return copy
}

/** As `checkData`, for any JSON value. */
export function checkJson(value: unknown, what: string): Json {
  check(value, what, 1)
  return JSON.parse(JSON.stringify(value))
}

function check(value: unknown, what: string, depth: number): void {
  if (depth > maxDepth) throw invalid(`${what} is nested deeper than ${maxDepth} levels (or in a circle)`)
  if (value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value))
    return
  if (typeof value !== 'object') {
    const it = typeof value === 'number' ? value : `a ${typeof value}`
    throw invalid(`${what} is ${it}, which JSON cannot carry`)
  }
  if ('toJSON' in value && typeof value.toJSON === 'function') check(value.toJSON(), what, depth + 1)
  else {
    for (const [key, item] of Object.entries(value)) {
      if (Array.isArray(value)) check(item, `${what}[${key}]`, depth + 1)
      else if (item !== undefined) check(item, `${what}.${key}`, depth + 1)
    }
  }
}

/** Throws if the whole of `data` is over the server's limit. */
export function checkSize(data: Json, what = 'data'): void {
  const bytes = byteLength(JSON.stringify(data))
  if (bytes > maxDataBytes) {
    throw invalid(`${what} is ${bytes} bytes as JSON; the limit is ${maxDataBytes}`, 'too_large')
  }
}

/** Empty, `.`, `..`, or with half a character: with the u flag a surrogate pair is one, and not found. */
const noId = /^\.{0,2}$|[\ud800-\udfff]/u

/** Throws unless `id` can be the id of a room or a user: 1-256 bytes of valid UTF-8. */
export function checkId(id: unknown, what: string): string {
  if (typeof id !== 'string' || noId.test(id) || byteLength(id) > 256) {
    throw invalid(
      `${what} must be a non-empty string of at most 256 bytes of Unicode text, and not "." or ".."`,
    )
  }
  return id
}

export function checkStatus(status: Status | null | undefined): void {
  if (status != null && !isStatus(status)) {
    throw invalid(`status must be active, idle or away, not ${JSON.stringify(status)}`)
  }
}

/** Bytes of `text` in UTF-8; it has no half characters. In an address each byte is one character, or `%` and two. */
function byteLength(text: string): number {
  return encodeURIComponent(text).replace(/%../g, '.').length
}
