import { invalid } from './error.ts'
import { isStatus, type Json, type JsonObject, type Status } from './member.ts'

/** The server's limits, checked at the call so that a mistake is seen where it is made. */
export const maxDataBytes = 1024
export const maxDepth = 32

/** `data` after a patch of its top-level keys. null is a value; `undefined` is left out, as in JSON. */
export function mergeData(data: JsonObject, patch: JsonObject): JsonObject {
  const merged = new Map(Object.entries(data))
  for (const [key, value] of Object.entries(patch)) merged.set(key, value)
  // fromEntries defines keys, where assignment would give `__proto__` its old magic.
  return Object.fromEntries(merged)
}

/**
 * A copy of what the application gave, as JSON will carry it. Throws on what JSON would silently
 * change: non-finite numbers (they turn into null), functions, symbols, big integers, cycles.
 */
export function checkData(value: unknown, what = 'data'): JsonObject {
  const copy = checkJson(value, what)
  if (typeof copy !== 'object' || copy === null || Array.isArray(copy)) {
    throw invalid(`${what} must be an object`)
  }
  return copy as JsonObject
}

/** As `checkData`, for any JSON value. */
export function checkJson(value: unknown, what: string): Json {
  return copyJson(value, what, 1)
}

/** Throws if the whole of `data` is over the server's limit. */
export function checkSize(data: Json, what = 'data'): void {
  const bytes = byteLength(JSON.stringify(data))
  if (bytes > maxDataBytes) {
    throw invalid(`${what} is ${bytes} bytes as JSON; the limit is ${maxDataBytes}`, 'too_large')
  }
}

/** Throws unless `id` can be the id of a room or a user: 1-256 bytes of valid UTF-8. */
export function checkId(id: unknown, what: string): string {
  if (typeof id !== 'string' || /^\.{0,2}$/.test(id) || loneSurrogate.test(id) || byteLength(id) > 256) {
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

/** Bytes of `text` in UTF-8, without an encoder: the core knows no platform globals. */
export function byteLength(text: string): number {
  let bytes = 0
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
  }
  return bytes
}

// With the u flag, surrogate pairs are single characters, so this finds only halves.
const loneSurrogate = /[\ud800-\udfff]/u

function copyJson(value: unknown, path: string, depth: number): Json {
  if (depth > maxDepth) throw invalid(`${path} is nested deeper than ${maxDepth} levels (or in a circle)`)
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value
    case 'number':
      if (!Number.isFinite(value)) throw invalid(`${path} is ${value}, which JSON cannot carry`)
      return value
    case 'object':
      break
    default:
      throw invalid(`${path} is a ${typeof value}, which JSON cannot carry`)
  }
  if (value === null) return null
  if (Array.isArray(value)) return value.map((item, i) => copyJson(item, `${path}[${i}]`, depth + 1))
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function') {
    return copyJson((value as { toJSON(): unknown }).toJSON(), path, depth + 1)
  }
  const entries = Object.entries(value).filter(([, item]) => item !== undefined)
  return Object.fromEntries(entries.map(([key, item]) => [key, copyJson(item, `${path}.${key}`, depth + 1)]))
}
