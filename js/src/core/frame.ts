import { isStatus, type Json, type JsonObject, type LeaveReason, type Member, type Status } from './member.ts'

/*
 * What the server says, checked. Everything that comes from the wire goes through `readFrame`; past this
 * file a frame has the shape its type says. Unknown types and broken frames vanish here: a client must
 * outlive servers newer than itself. What nobody uses is not read.
 */

export type Mode = 'full' | 'counts'

interface Leave {
  readonly user: string
  readonly reason: LeaveReason | null
}

/** An object from the wire, with nothing known of it. */
export type Raw = { readonly [key: string]: unknown }

/** Reads one field of a frame. Throws where the frame cannot be read without it. */
type Read<T> = (value: unknown, raw: Raw) => T

const ms =
  (otherwise: number): Read<number> =>
  (value) =>
    positive(value) ?? otherwise

const state = {
  room: text,
  epoch: text,
  version: whole,
  mode: ((value, { members }) =>
    value === 'counts' ? value : Array.isArray(members) ? 'full' : fail()) as Read<Mode>,
  count: ((value) => natural(value) ?? 0) as Read<number>,
  members: ((value, { mode }) => toMembers(mode === 'counts' ? [] : value)) as Read<readonly Member[]>,
  sample: ((value, { mode }) => toMembers(mode === 'counts' ? value : [])) as Read<readonly Member[]>,
  /** 0 = the store is sure of what it says. */
  settlingMs: ms(0),
}

/** What is read where it is used, by code that is fetched when it is needed. */
const unread = { fields: ((_, raw) => raw) as Read<Raw> }
const ofRoom = { room: text, ...unread }

/** The frames by type, and how their fields are read. */
const shapes = {
  snapshot: state,
  mode: state,
  resumed: { room: text, epoch: text, version: whole },
  diff: {
    room: text,
    prev: whole,
    version: ((value, { prev }) => (whole(value) > whole(prev) ? whole(value) : fail())) as Read<number>,
    join: all,
    update: all,
    leave: ((value) => toList(value).map(toLeave)) as Read<readonly Leave[]>,
  },
  count: {
    room: text,
    version: whole,
    count: whole,
    sample: ((value) => (Array.isArray(value) ? toMembers(value) : null)) as Read<readonly Member[] | null>,
  },
  ended: { room: text, reason: toText },
  signals: ofRoom,
  page: ofRoom,
  contacts: ofRoom,
  users: unread,
  beat: unread,
  expiring: unread,
  bye: unread,
  ready: { connection: text, resume: toText, user: text, beatMs: ms(9_000) },
  health: {
    store: ((value) => (value === 'degraded' ? value : 'ok')) as Read<'ok' | 'degraded'>,
    staleMs: ms(0),
  },
  ok: { id: whole, ...unread },
  error: {
    id: whole,
    code: ((value) => toText(value) || 'error') as Read<string>,
    message: ((value, { code }) => toText(value) || toText(code)) as Read<string>,
    retry: ((value) => value === true) as Read<boolean>,
  },
}

type Shapes = typeof shapes
type Type = keyof Shapes
type FrameOf<T extends Type> = T extends Type
  ? { readonly type: T } & {
      readonly [F in keyof Shapes[T]]: Shapes[T][F] extends Read<infer V> ? V : never
    }
  : never

export type Frame = FrameOf<Type>
export type ReadyFrame = FrameOf<'ready'>
export type StateFrame = FrameOf<'snapshot' | 'mode'>
type ResumedFrame = FrameOf<'resumed'>
type DiffFrame = FrameOf<'diff'>
type CountFrame = FrameOf<'count'>
export type UnreadFrame = FrameOf<'signals' | 'page' | 'contacts'>
/** Frames that change what is known of one room. */
export type RosterFrame = StateFrame | ResumedFrame | DiffFrame | CountFrame

/** Decodes one WebSocket message: an object or an array of objects. Never throws. */
export function decodeFrames(text: string): Frame[] {
  try {
    const value: unknown = JSON.parse(text)
    return [value].flat().flatMap((item) => readFrame(item) ?? [])
  } catch {
    return []
  }
}

/** What one object says, or null. Never throws. */
export function readFrame(raw: unknown): Frame | null {
  if (!isRaw(raw) || !Object.hasOwn(shapes, toText(raw.type))) return null
  const type = raw.type as Type
  const frame: { [field: string]: unknown } = { type }
  try {
    for (const [field, read] of Object.entries<Read<unknown>>(shapes[type]))
      frame[field] = read(raw[field], raw)
    return frame as Frame
  } catch {
    if (type !== 'diff' || !frame.room) return null
    // One that fits nobody: to drop it would leave a silent room wrong.
    const misfit = { prev: -1, version: Number.MAX_SAFE_INTEGER, join: [], update: [], leave: [] }
    return { type, room: frame.room as string, ...misfit }
  }
}

function fail(): never {
  throw new Error('unreadable')
}

/** What must be there: an id, an epoch. */
function text(value: unknown): string {
  return toText(value) || fail()
}

function whole(value: unknown): number {
  return natural(value) ?? fail()
}

/** Members of which everyone must be readable; what is no list is an empty one. */
function all(value: unknown): Member[] {
  return toList(value).map((item) => toMember(item) ?? fail())
}

function toLeave(value: unknown): Leave {
  const { user, reason } = value as { readonly user: unknown; readonly reason: LeaveReason }
  return { user: text(user), reason: reasons.includes(reason) ? reason : null }
}

const reasons: readonly LeaveReason[] = ['left', 'closed', 'expired', 'kicked', 'revoked']

/** A member as it came, or null. Keys that are not ours are dropped, so equality stays cheap. */
export function toMember(value: unknown): Member | null {
  if (!isRaw(value)) return null
  const { info, status, connections, since, data } = value
  const user = toText(value.user)
  if (user === '') return null
  return {
    user,
    info: toObject(info),
    status: isStatus(status) ? status : ('active' satisfies Status),
    connections: natural(connections) ?? 1,
    since: positive(since) ?? 0,
    data: toObject(data),
  }
}

/** What is no list is an empty one. */
export function toList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export function toMembers(value: unknown): Member[] {
  return toList(value).flatMap((item) => toMember(item) ?? [])
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
  return Number.isSafeInteger(value) ? positive(value) : null
}

export function positive(value: unknown): number | null {
  return Number.isFinite(value) && (value as number) >= 0 ? (value as number) : null
}
