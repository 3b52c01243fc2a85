import type { Mode, RosterFrame, StateFrame } from './frame.ts'
import { compareMembers, type LeaveReason, type Member, sameJson, sameList } from './member.ts'

/*
 * What a client knows of one room, and how a frame changes it. Pure: time is an argument, nothing
 * is written in place. A frame applies whole or not at all:
 *
 *   snapshot         replaces everything (an older version of the same epoch only if it was asked for)
 *   diff             applies if its `prev` is our version; an old one is dropped; else it is a gap
 *   update           changes a member, never makes one
 *   count            counts mode only
 *
 * While the server settles (it has just lost its memory), members missing from its snapshot stay,
 * marked stale, until `settledAt`.
 */

export interface Roster {
  readonly epoch: string
  /** NaN before the first snapshot: no version is older, newer or the same. */
  readonly version: number
  /** Null before the first snapshot; nothing else is true before. */
  readonly mode: Mode | null
  readonly count: number
  /** In the order of `list`. */
  readonly members: ReadonlyMap<string, Member>
  /** The members by name, then id. */
  readonly list: readonly Member[]
  /** Counts mode: some of the longest present. */
  readonly sample: readonly Member[]
  readonly settledAt: number | null
}

export type Change =
  | { readonly type: 'join'; readonly member: Member }
  | { readonly type: 'update'; readonly member: Member; readonly previous: Member }
  | { readonly type: 'leave'; readonly member: Member; readonly reason: LeaveReason | null }

/**
 * `missed`: something between our version and this frame never came. `behind`: the server says less
 * than we know, as a replica may for a moment. Both are mended by a snapshot.
 */
export type Gap = 'missed' | 'behind'

export interface Step {
  readonly roster: Roster
  readonly changes: readonly Change[]
  readonly gap: Gap | null
}

export const emptyRoster: Roster = {
  epoch: '',
  version: Number.NaN,
  mode: null,
  count: 0,
  members: new Map(),
  list: [],
  sample: [],
  settledAt: null,
}

/** `asked` = this is the answer to our own request for a snapshot, so it is right whatever its version. */
export function reduce(roster: Roster, frame: RosterFrame, now: number, asked = false): Step {
  const isOlder = frame.version < roster.version
  const isSame = frame.version === roster.version
  switch (frame.type) {
    case 'diff':
      if (isOlder || isSame) return step(roster)
      if (frame.prev !== roster.version || roster.mode !== 'full') return step(roster, 'missed')
      return change({ ...roster, version: frame.version }, frame.leave, frame.join, frame.update)
    case 'count':
      if (isOlder) return step(roster)
      // A count for a room we hold in full means that the change of mode was missed.
      if (roster.mode !== 'counts') return step(roster, isSame ? null : 'missed')
      return step({
        ...roster,
        version: frame.version,
        count: frame.count,
        sample: keepIdentity(roster.sample, frame.sample ?? roster.sample),
      })
    case 'resumed':
      return step(roster, isSame && frame.epoch === roster.epoch ? null : 'missed')
    default:
      if (isOlder && frame.epoch === roster.epoch && !asked) return step(roster, 'behind')
      return replace(roster, frame, now)
  }
}

function replace(roster: Roster, frame: StateFrame, now: number): Step {
  const said = new Set(frame.members.map(({ user }) => user))
  const missing = roster.list.filter(({ user }) => !said.has(user))
  const settles = frame.settlingMs > 0
  const stay = settles && frame.mode === 'full'
  const next: Roster = {
    ...roster,
    epoch: frame.epoch,
    version: frame.version,
    mode: frame.mode,
    count: frame.count,
    sample: keepIdentity(roster.sample, frame.sample),
    settledAt: settles ? now + frame.settlingMs : null,
  }
  const marked = stay ? missing.map((member): Member => ({ ...member, stale: true })) : []
  const changed = change(next, stay ? [] : missing, [...frame.members, ...marked])
  // Entering a room is not a crowd of joins, and a change of mode is not a change of the people.
  return roster.mode === frame.mode ? changed : { ...changed, changes: [] }
}

/** Changes the members, and notes what is new in that: a mark that comes or goes is not. */
export function change(
  roster: Roster,
  leave: readonly { readonly user: string; readonly reason?: LeaveReason | null }[],
  join: readonly Member[] = [],
  update: readonly Member[] = [],
): Step {
  const members = new Map(roster.members)
  const changes: Change[] = []
  const put = (member: Member) => {
    const previous = members.get(member.user)
    if (sameJson(previous, member)) return
    members.set(member.user, member)
    if (previous === undefined) changes.push({ type: 'join', member })
    else if (!sameJson({ ...previous, stale: true }, { ...member, stale: true }))
      changes.push({ type: 'update', member, previous })
  }
  for (const { user, reason = null } of leave) {
    const member = members.get(user)
    if (member === undefined) continue
    members.delete(user)
    changes.push({ type: 'leave', member, reason })
  }
  for (const member of join) put(member)
  // An update changes a member, and never makes one.
  for (const member of update) if (members.has(member.user)) put(member)
  const list = [...members.values()].sort(compareMembers)
  // In order, so that the next change finds nearly all of it sorted.
  members.clear()
  for (const member of list) members.set(member.user, member)
  const next = {
    ...roster,
    members,
    list: sameList(roster.list, list),
    count: roster.mode === 'full' ? list.length : roster.count,
  }
  return step(next, null, changes)
}

function keepIdentity(before: readonly Member[], after: readonly Member[]): readonly Member[] {
  return sameList(
    before,
    after.map((member) => before.find((known) => sameJson(known, member)) ?? member),
  )
}

function step(roster: Roster, gap: Gap | null = null, changes: readonly Change[] = []): Step {
  return { roster, changes, gap }
}
