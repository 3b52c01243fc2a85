import type { CountFrame, DiffFrame, Mode, ResumedFrame, RosterFrame, StateFrame } from './frame.ts'
import { compareMembers, type LeaveReason, type Member, sameList, sameMember } from './member.ts'

/*
 * What a client knows of one room, and how a frame changes it. Pure: time is an argument, nothing
 * is written in place. A frame applies whole or not at all:
 *
 *   snapshot, mode   replace everything (an older version of the same epoch only if it was asked for)
 *   diff             applies if its `prev` is our version; an old one is dropped; else it is a gap
 *   update           changes a member, never makes one
 *   count            counts mode only
 *
 * While the server settles (it has just lost its memory), members missing from its snapshot stay,
 * marked stale, until `settledAt`.
 */

export interface Roster {
  /** False until the first snapshot; nothing else is true before. */
  readonly known: boolean
  readonly epoch: string
  readonly version: number
  readonly mode: Mode
  readonly count: number
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
  known: false,
  epoch: '',
  version: 0,
  mode: 'full',
  count: 0,
  members: new Map(),
  list: [],
  sample: [],
  settledAt: null,
}

/** `asked` = this is the answer to our own request for a snapshot, so it is right whatever its version. */
export function reduce(roster: Roster, frame: RosterFrame, now: number, asked = false): Step {
  switch (frame.type) {
    case 'snapshot':
    case 'mode':
      return replace(roster, frame, now, asked)
    case 'diff':
      return applyDiff(roster, frame)
    case 'count':
      return applyCount(roster, frame)
    case 'resumed':
      return confirm(roster, frame)
  }
}

/** Drops the members that did not come back in time, once the settling is over. */
export function settle(roster: Roster, now: number): Step {
  if (roster.settledAt === null || now < roster.settledAt) return unchanged(roster)
  const members = new Map<string, Member>()
  const changes: Change[] = []
  for (const [user, member] of roster.members) {
    if (member.stale) changes.push({ type: 'leave', member, reason: null })
    else members.set(user, member)
  }
  return { roster: withMembers({ ...roster, settledAt: null }, members), changes, gap: null }
}

function replace(roster: Roster, frame: StateFrame, now: number, asked: boolean): Step {
  const older = roster.known && frame.epoch === roster.epoch && frame.version < roster.version
  if (older && !asked) return unchanged(roster, 'behind')
  // Entering a room is not a crowd of joins, and a change of mode is not a change of the people.
  const comparable = roster.known && roster.mode === frame.mode && frame.mode === 'full'
  const changes: Change[] = []
  const members = new Map<string, Member>()
  for (const said of frame.members) {
    const before = roster.members.get(said.user)
    if (before !== undefined) members.set(said.user, before)
    put(members, said, comparable ? changes : [])
  }
  if (comparable) {
    for (const [user, member] of roster.members) {
      if (members.has(user)) continue
      if (frame.settlingMs > 0) members.set(user, member.stale ? member : { ...member, stale: true })
      else changes.push({ type: 'leave', member, reason: null })
    }
  }
  const next: Roster = {
    ...roster,
    known: true,
    epoch: frame.epoch,
    version: frame.version,
    mode: frame.mode,
    count: frame.count,
    sample: keepIdentity(roster.sample, frame.sample),
    settledAt: frame.settlingMs > 0 ? now + frame.settlingMs : null,
  }
  return { roster: withMembers(next, members), changes, gap: null }
}

function applyDiff(roster: Roster, frame: DiffFrame): Step {
  if (!roster.known) return unchanged(roster, 'missed')
  if (frame.version <= roster.version) return unchanged(roster)
  if (frame.prev !== roster.version || roster.mode !== 'full') return unchanged(roster, 'missed')
  const members = new Map(roster.members)
  const changes: Change[] = []
  for (const { user, reason } of frame.leave) {
    const member = members.get(user)
    if (member === undefined) continue
    members.delete(user)
    changes.push({ type: 'leave', member, reason })
  }
  for (const member of frame.join) put(members, member, changes)
  // An update changes a member, and never makes one.
  for (const member of frame.update) if (members.has(member.user)) put(members, member, changes)
  return { roster: withMembers({ ...roster, version: frame.version }, members), changes, gap: null }
}

/** Puts a member as it was said, and notes what that changes. */
function put(members: Map<string, Member>, said: Member, changes: Change[]): void {
  const previous = members.get(said.user)
  members.set(said.user, keep(previous, said))
  if (previous === undefined) changes.push({ type: 'join', member: said })
  else if (!sameMember(unmarked(previous), said)) changes.push({ type: 'update', member: said, previous })
}

function applyCount(roster: Roster, frame: CountFrame): Step {
  if (!roster.known) return unchanged(roster, 'missed')
  if (frame.version < roster.version) return unchanged(roster)
  // A count for a room we hold in full means that the change of mode was missed.
  if (roster.mode === 'full') return unchanged(roster, frame.version > roster.version ? 'missed' : null)
  const sample = frame.sample === null ? roster.sample : keepIdentity(roster.sample, frame.sample)
  return { roster: { ...roster, version: frame.version, count: frame.count, sample }, changes: [], gap: null }
}

function confirm(roster: Roster, frame: ResumedFrame): Step {
  const ours = roster.known && frame.epoch === roster.epoch && frame.version === roster.version
  return unchanged(roster, ours ? null : 'missed')
}

/** Puts `members` in place, sorted; keeps the old list if nothing in it changed. */
function withMembers(roster: Roster, members: ReadonlyMap<string, Member>): Roster {
  // Old order first: what is nearly sorted sorts in linear time.
  const list: Member[] = []
  for (const old of roster.list) {
    const member = members.get(old.user)
    if (member !== undefined) list.push(member)
  }
  for (const [user, member] of members) {
    if (!roster.members.has(user)) list.push(member)
  }
  list.sort(compareMembers)
  return {
    ...roster,
    members,
    list: sameList(roster.list, list),
    count: roster.mode === 'full' ? members.size : roster.count,
  }
}

function keepIdentity(before: readonly Member[], after: readonly Member[]): readonly Member[] {
  const byUser = new Map(before.map((member) => [member.user, member]))
  return sameList(
    before,
    after.map((member) => keep(byUser.get(member.user), member)),
  )
}

function keep(before: Member | undefined, after: Member): Member {
  return before !== undefined && sameMember(before, after) ? before : after
}

function unmarked(member: Member): Member {
  if (!member.stale) return member
  const { stale: _, ...rest } = member
  return rest
}

function unchanged(roster: Roster, gap: Gap | null = null): Step {
  return { roster, changes: [], gap }
}
