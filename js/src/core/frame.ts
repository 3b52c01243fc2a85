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

/** An object from the wire, with nothing known of it. */
export type Raw = { readonly [key: string]: unknown }

/**
 * Reads one field of a frame; undefined = the frame cannot be read without it. `room` stands in where a
 * stream of a single room leaves it out.
 */
type Read<T> = (value: unknown, raw: Raw, room: string | null) => T | undefined

const room: Read<string> = (value, _, fallback) => toText(value) || (fallback ?? undefined)
const string: Read<string> = (value) => (typeof value === 'string' ? value : undefined)
const whole: Read<number> = (value) => natural(value) ?? undefined
/** What is read where it is used, by code that is fetched when it is needed. */
const fields: Read<Raw> = (_, raw) => raw
const ms =
  (otherwise: number): Read<number> =>
  (value) =>
    positive(value) ?? otherwise

/** A list of which every item can be read; what is no list is an empty one. */
function all<T>(read: (item: unknown) => T | null): Read<readonly T[]> {
  return (value) => {
    const list = toList(value).map(read)
    return list.includes(null) ? undefined : (list as T[])
  }
}

const state = {
  room,
  epoch: string,
  version: whole,
  mode: ((value, { members }) =>
    value === 'counts' ? value : Array.isArray(members) ? 'full' : undefined) as Read<Mode>,
  count: ((value, { mode, members }) =>
    natural(value) ?? (mode === 'counts' ? 0 : toMembers(members).length)) as Read<number>,
  members: ((value, { mode }) => (mode === 'counts' ? [] : toMembers(value))) as Read<readonly Member[]>,
  sample: ((value, { mode }) => (mode === 'counts' ? toMembers(value) : [])) as Read<readonly Member[]>,
  /** 0 = the store is sure of what it says. */
  settlingMs: ms(0),
}

const unread = { room, fields }

/** The frames by type, and how their fields are read. */
const shapes = {
  snapshot: state,
  mode: state,
  resumed: { room, epoch: string, version: whole },
  diff: {
    room,
    prev: whole,
    version: ((value, { prev }) =>
      Number(prev) < Number(value) ? whole(value, {}, null) : undefined) as Read<number>,
    count: natural as Read<number | null>,
    join: all(toMember),
    update: all(toMember),
    leave: all(toLeave),
  },
  count: {
    room,
    version: whole,
    count: whole,
    sample: ((value) => (Array.isArray(value) ? toMembers(value) : null)) as Read<readonly Member[] | null>,
  },
  ended: { room, reason: toText as Read<string> },
  signals: unread,
  page: unread,
  contacts: unread,
  users: { fields },
  ready: {
    connection: string,
    resume: toText as Read<string>,
    user: string,
    leaseMs: ms(30_000),
    beatMs: ms(9_000),
  },
  beat: { n: natural as Read<number | null> },
  pong: {},
  health: {
    store: ((value) => (value === 'degraded' ? value : 'ok')) as Read<'ok' | 'degraded'>,
    staleMs: ms(0),
  },
  expiring: { inMs: ms(0) },
  bye: {
    reason: toText as Read<string>,
    // Only an explicit null forbids the way back; a missing hint leaves the client its own back-off.
    reconnectMs: ((value) => (value === null ? null : (positive(value) ?? 0))) as Read<number | null>,
  },
  ok: { id: whole, fields },
  error: {
    id: natural as Read<number | null>,
    code: ((value) => toText(value) || 'error') as Read<string>,
    message: ((value, { code }) => toText(value) || toText(code)) as Read<string>,
    retry: ((value) => value === true) as Read<boolean>,
  },
}

type Shapes = typeof shapes
type Type = keyof Shapes
export type FrameOf<T extends Type> = T extends Type
  ? { readonly type: T } & {
      readonly [F in keyof Shapes[T]]: Shapes[T][F] extends Read<infer V> ? V : never
    }
  : never

export type Frame = FrameOf<Type>
export type ReadyFrame = FrameOf<'ready'>
export type StateFrame = FrameOf<'snapshot' | 'mode'>
export type ResumedFrame = FrameOf<'resumed'>
export type DiffFrame = FrameOf<'diff'>
export type CountFrame = FrameOf<'count'>
export type UnreadFrame = FrameOf<'signals' | 'page' | 'contacts'>
/** Frames that change what is known of one room. */
export type RosterFrame = StateFrame | ResumedFrame | DiffFrame | CountFrame

/** A diff that cannot be read comes as one that fits nobody: to drop it would leave a silent room wrong. */
const misfit = {
  prev: -1,
  version: Number.MAX_SAFE_INTEGER,
  count: null,
  join: [],
  update: [],
  leave: [],
}

/** Decodes one WebSocket message: an object or an array of objects. Never throws. */
export function decodeFrames(text: string): Frame[] {
  const value = parse(text)
  return (Array.isArray(value) ? value : [value])
    .map((item) => (isRaw(item) ? toFrame(item.type, item, null) : null))
    .filter((frame) => frame !== null)
}

/** Decodes one SSE event. `room` stands in where a stream of a single room leaves it out. */
export function decodeEvent(event: string, data: string, room: string | null): Frame | null {
  const value = parse(data)
  return isRaw(value) ? toFrame(event, value, room) : null
}

function toFrame(type: unknown, raw: Raw, fallback: string | null): Frame | null {
  if (typeof type !== 'string' || !Object.hasOwn(shapes, type)) return null
  const frame: { [field: string]: unknown } = { type }
  for (const [field, read] of Object.entries<Read<unknown>>(shapes[type as Type])) {
    const value = read(raw[field], raw, fallback)
    if (value === undefined) {
      return type === 'diff' && frame.room ? { type, room: frame.room as string, ...misfit } : null
    }
    frame[field] = value
  }
  return frame as Frame
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
    since: Number.isFinite(since) ? (since as number) : 0,
    data: toObject(data),
  }
}

function toLeave(value: unknown): Leave | null {
  if (!isRaw(value) || typeof value.user !== 'string') return null
  const reason = value.reason as LeaveReason
  return { user: value.user, reason: reasons.includes(reason) ? reason : null }
}

const reasons: readonly LeaveReason[] = ['left', 'closed', 'expired', 'kicked', 'revoked']

/** What is no list is an empty one. */
export function toList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export function toMembers(value: unknown): Member[] {
  return toList(value)
    .map(toMember)
    .filter((member) => member !== null)
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
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : null
}

export function positive(value: unknown): number | null {
  return Number.isFinite(value) && (value as number) >= 0 ? (value as number) : null
}
