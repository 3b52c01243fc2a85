import { isStatus, type Json, type JsonObject, type LeaveReason, type Member, type Status } from './member.ts'

/*
 * What the server says, checked. Everything that comes from the wire goes through `decodeFrames` or
 * `decodeEvent`; past this file a frame has the shape its type says. Unknown types and broken frames
 * vanish here: a client must outlive servers newer than itself.
 */

export type Mode = 'full' | 'counts'

export interface Leave {
  readonly user: string
  readonly reason: LeaveReason | null
}

export interface StateFrame {
  readonly type: 'snapshot' | 'mode'
  readonly room: string
  readonly epoch: string
  readonly version: number
  readonly mode: Mode
  readonly count: number
  readonly members: readonly Member[]
  readonly sample: readonly Member[]
  /** 0 = the store is sure of what it says. */
  readonly settlingMs: number
}

export interface ResumedFrame {
  readonly type: 'resumed'
  readonly room: string
  readonly epoch: string
  readonly version: number
}

export interface DiffFrame {
  readonly type: 'diff'
  readonly room: string
  readonly prev: number
  readonly version: number
  readonly count: number | null
  readonly join: readonly Member[]
  readonly update: readonly Member[]
  readonly leave: readonly Leave[]
}

export interface CountFrame {
  readonly type: 'count'
  readonly room: string
  readonly version: number
  readonly count: number
  readonly sample: readonly Member[] | null
}

/** What is read where it is used, by code that is fetched when it is needed. */
export interface UnreadFrame {
  readonly type: 'signals' | 'page' | 'contacts'
  readonly room: string
  readonly fields: Raw
}

/** Frames that change what is known of one room. */
export type RosterFrame = StateFrame | ResumedFrame | DiffFrame | CountFrame

export interface ReadyFrame {
  readonly type: 'ready'
  readonly connection: string
  readonly resume: string
  readonly user: string
  readonly leaseMs: number
  readonly beatMs: number
}

export type Frame =
  | RosterFrame
  | ReadyFrame
  | UnreadFrame
  | { readonly type: 'users'; readonly fields: Raw }
  | { readonly type: 'ended'; readonly room: string; readonly reason: string }
  | { readonly type: 'beat'; readonly n: number | null }
  | { readonly type: 'health'; readonly store: 'ok' | 'degraded'; readonly staleMs: number }
  | { readonly type: 'expiring'; readonly inMs: number }
  | { readonly type: 'bye'; readonly reason: string; readonly reconnectMs: number | null }
  | { readonly type: 'pong' }
  | { readonly type: 'ok'; readonly id: number; readonly fields: Raw }
  | {
      readonly type: 'error'
      readonly id: number | null
      readonly code: string
      readonly message: string
      readonly retry: boolean
    }

/** An object from the wire, with nothing known of it. */
export type Raw = { readonly [key: string]: unknown }

/** Decodes one WebSocket message: an object or an array of objects. Never throws. */
export function decodeFrames(text: string): Frame[] {
  const value = parse(text)
  const list = Array.isArray(value) ? value : [value]
  const frames: Frame[] = []
  for (const item of list) {
    const frame = isRaw(item) ? toFrame(item.type, item, null) : null
    if (frame !== null) frames.push(frame)
  }
  return frames
}

/** Decodes one SSE event. `room` stands in where a stream of a single room leaves it out. */
export function decodeEvent(event: string, data: string, room: string | null): Frame | null {
  const value = parse(data)
  return isRaw(value) ? toFrame(event, value, room) : null
}

/** A member as it came, or null. Keys that are not ours are dropped, so equality stays cheap. */
export function toMember(value: unknown): Member | null {
  if (!isRaw(value)) return null
  const { user, info, status, connections, since, data } = value
  if (typeof user !== 'string' || user === '') return null
  return {
    user,
    info: toObject(info),
    status: isStatus(status) ? status : ('active' satisfies Status),
    connections: natural(connections) ?? 1,
    since: typeof since === 'number' && Number.isFinite(since) ? since : 0,
    data: toObject(data),
  }
}

function toFrame(type: unknown, raw: Raw, fallbackRoom: string | null): Frame | null {
  const room = typeof raw.room === 'string' && raw.room !== '' ? raw.room : fallbackRoom
  switch (type) {
    case 'snapshot':
    case 'mode':
      return room === null ? null : toState(type, room, raw)
    case 'resumed': {
      const version = natural(raw.version)
      if (room === null || version === null || typeof raw.epoch !== 'string') return null
      return { type, room, epoch: raw.epoch, version }
    }
    case 'diff':
      return room === null ? null : toDiff(room, raw)
    case 'count': {
      const version = natural(raw.version)
      const count = natural(raw.count)
      if (room === null || version === null || count === null) return null
      return { type, room, version, count, sample: Array.isArray(raw.sample) ? toMembers(raw.sample) : null }
    }
    case 'signals':
    case 'page':
    case 'contacts':
      return room === null ? null : { type, room, fields: raw }
    case 'ended':
      return room === null ? null : { type, room, reason: toText(raw.reason) }
    default:
      return toConnectionFrame(type, raw)
  }
}

/** Frames about the connection itself, which name no room. */
function toConnectionFrame(type: unknown, raw: Raw): Frame | null {
  switch (type) {
    case 'ready': {
      const { connection, resume, user } = raw
      if (typeof connection !== 'string' || typeof user !== 'string') return null
      return {
        type,
        connection,
        resume: toText(resume),
        user,
        leaseMs: positive(raw.leaseMs) ?? 30_000,
        beatMs: positive(raw.beatMs) ?? 9_000,
      }
    }
    case 'beat':
      return { type, n: natural(raw.n) }
    case 'health':
      return {
        type,
        store: raw.store === 'degraded' ? 'degraded' : 'ok',
        staleMs: positive(raw.staleMs) ?? 0,
      }
    case 'expiring':
      return { type, inMs: positive(raw.inMs) ?? 0 }
    case 'bye':
      // Only an explicit null forbids the way back; a missing hint leaves the client its own back-off.
      return {
        type,
        reason: toText(raw.reason),
        reconnectMs: raw.reconnectMs === null ? null : (positive(raw.reconnectMs) ?? 0),
      }
    case 'pong':
      return { type }
    case 'users':
      return { type, fields: raw }
    case 'ok': {
      const id = natural(raw.id)
      return id === null ? null : { type, id, fields: raw }
    }
    case 'error':
      return {
        type,
        id: natural(raw.id),
        code: toText(raw.code) || 'error',
        message: toText(raw.message) || toText(raw.code),
        retry: raw.retry === true,
      }
    default:
      return null
  }
}

function toState(type: 'snapshot' | 'mode', room: string, raw: Raw): StateFrame | null {
  const version = natural(raw.version)
  if (version === null || typeof raw.epoch !== 'string') return null
  const mode: Mode = raw.mode === 'counts' ? 'counts' : 'full'
  if (mode === 'full' && !Array.isArray(raw.members)) return null
  const members = mode === 'full' ? toMembers(raw.members) : []
  return {
    type,
    room,
    epoch: raw.epoch,
    version,
    mode,
    count: natural(raw.count) ?? members.length,
    members,
    sample: mode === 'counts' ? toMembers(raw.sample) : [],
    settlingMs: positive(raw.settlingMs) ?? 0,
  }
}

/** A diff that cannot be read, in whole or in part, comes as one that fits nobody: to drop it would
 * leave a silent room wrong. */
function toDiff(room: string, raw: Raw): DiffFrame {
  const prev = natural(raw.prev)
  const version = natural(raw.version)
  const join = toMembers(raw.join)
  const update = toMembers(raw.update)
  const leave: Leave[] = []
  for (const item of toList(raw.leave)) {
    if (!isRaw(item) || typeof item.user !== 'string') continue
    leave.push({ user: item.user, reason: toReason(item.reason) })
  }
  const whole =
    join.length === toList(raw.join).length &&
    update.length === toList(raw.update).length &&
    leave.length === toList(raw.leave).length
  if (prev === null || version === null || version <= prev || !whole) {
    return {
      type: 'diff',
      room,
      prev: -1,
      version: Number.MAX_SAFE_INTEGER,
      count: null,
      join: [],
      update: [],
      leave: [],
    }
  }
  return { type: 'diff', room, prev, version, count: natural(raw.count), join, update, leave }
}

/** What is no list is an empty one. */
export function toList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export function toMembers(value: unknown): Member[] {
  return toList(value)
    .map(toMember)
    .filter((member) => member !== null)
}

function toReason(value: unknown): LeaveReason | null {
  switch (value) {
    case 'left':
    case 'closed':
    case 'expired':
    case 'kicked':
    case 'revoked':
      return value
    default:
      return null
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export function isRaw(value: unknown): value is Raw {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function toObject(value: unknown): JsonObject {
  return isRaw(value) ? (value as { readonly [key: string]: Json }) : {}
}

export function toText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

export function natural(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null
}

export function positive(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null
}
