import { describe, expect, test } from 'vitest'
import { decodeFrames, type RosterFrame } from '../src/core/frame.ts'
import { settle } from '../src/core/roomupkeep.ts'
import { emptyRoster, type Roster, reduce } from '../src/core/roster.ts'

const ana = { user: 'ana', info: { name: 'Ana' }, status: 'active', connections: 1, since: 1, data: {} }
const bob = { user: 'bob', info: { name: 'Bob' }, status: 'active', connections: 1, since: 2, data: {} }
const cem = { user: 'cem', info: { name: 'Cem' }, status: 'idle', connections: 1, since: 3, data: {} }

const snapshot = (version: number, members: unknown[], extra = {}) => ({
  type: 'snapshot',
  room: 'r',
  epoch: 'e',
  version,
  mode: 'full',
  count: members.length,
  members,
  ...extra,
})
const diff = (prev: number, version: number, lists: object) => ({
  type: 'diff',
  room: 'r',
  prev,
  version,
  count: 0,
  ...lists,
})

/** Sends raw frames through the decoder, as the wire does, and collects what happened. */
function feed(raw: unknown, roster: Roster = emptyRoster, now = 0) {
  const changes: string[] = []
  const gaps: string[] = []
  for (const frame of decodeFrames(JSON.stringify(raw))) {
    const step = reduce(roster, frame as RosterFrame, now)
    roster = step.roster
    for (const change of step.changes) changes.push(`${change.type} ${change.member.user}`)
    if (step.gap) gaps.push(step.gap)
  }
  return { roster, changes, gaps, users: roster.list.map(({ user }) => user) }
}

describe('snapshot', () => {
  test('entering a room is not a crowd of joins', () => {
    const { users, changes, roster } = feed(snapshot(1, [bob, ana]))
    expect(users).toEqual(['ana', 'bob'])
    expect(changes).toEqual([])
    expect(roster.count).toBe(2)
  })

  test('a later one tells what was missed', () => {
    const { changes } = feed([snapshot(1, [ana, bob]), snapshot(5, [{ ...bob, status: 'away' }, cem])])
    expect(changes.sort()).toEqual(['join cem', 'leave ana', 'update bob'])
  })

  test('members that did not change keep their identity, and so does the list', () => {
    const first = feed(snapshot(1, [ana, bob])).roster
    const second = feed(snapshot(2, [bob, ana]), first).roster
    expect(second.list).toBe(first.list)
    expect(second.members.get('ana')).toBe(first.members.get('ana'))
    const third = feed(diff(2, 3, { update: [{ ...bob, status: 'idle' }] }), second).roster
    expect(third.members.get('ana')).toBe(first.members.get('ana'))
    expect(third.members.get('bob')).not.toBe(first.members.get('bob'))
  })

  test('an older one of the same epoch waits for proof', () => {
    const first = feed(snapshot(7, [ana, bob])).roster
    const stale = feed(snapshot(5, [ana]), first)
    expect(stale.users).toEqual(['ana', 'bob'])
    expect(stale.gaps).toEqual(['behind'])
    const frame = decodeFrames(JSON.stringify(snapshot(5, [ana])))[0] as RosterFrame
    expect(reduce(first, frame, 0, true).roster.list.map(({ user }) => user)).toEqual(['ana'])
    expect(feed(snapshot(1, [cem], { epoch: 'new' }), first).users).toEqual(['cem'])
  })

  test('order is by name, then id, whatever changes', () => {
    const zoe = { ...bob, user: 'a', info: { name: 'Zoë' } }
    const twin = { ...ana, user: 'ana2' }
    expect(feed(snapshot(1, [zoe, twin, ana, cem])).users).toEqual(['ana', 'ana2', 'cem', 'a'])
  })
})

describe('diff', () => {
  test('applies on our version, is dropped when old, and is a gap otherwise', () => {
    const { roster } = feed(snapshot(3, [ana]))
    expect(feed(diff(3, 4, { join: [bob] }), roster).users).toEqual(['ana', 'bob'])
    expect(feed(diff(2, 3, { join: [bob] }), roster)).toMatchObject({ users: ['ana'], gaps: [] })
    expect(feed(diff(4, 5, { join: [bob] }), roster)).toMatchObject({ users: ['ana'], gaps: ['missed'] })
    expect(feed(diff(2, 5, { join: [bob] }), roster)).toMatchObject({ users: ['ana'], gaps: ['missed'] })
  })

  test('a repeated diff changes nothing', () => {
    const join = diff(1, 2, { join: [bob] })
    expect(feed([snapshot(1, [ana]), join, join]).changes).toEqual(['join bob'])
  })

  test('before the snapshot it is a gap, not a roster', () => {
    expect(feed(diff(0, 1, { join: [ana] }))).toMatchObject({ users: [], gaps: ['missed'] })
  })

  test('A09: an update never brings back who left', () => {
    const { users, changes } = feed([
      snapshot(1, []),
      diff(1, 2, { join: [ana] }),
      diff(2, 3, { leave: [{ user: 'ana', reason: 'left' }] }),
      diff(3, 4, { update: [ana] }),
    ])
    expect(users).toEqual([])
    expect(changes).toEqual(['join ana', 'leave ana'])
  })

  test('a join of someone present is an update; a leave of a stranger is nothing', () => {
    const { users, changes } = feed([
      snapshot(1, [ana]),
      diff(1, 2, { join: [{ ...ana, since: 9 }], leave: [{ user: 'nobody', reason: 'left' }] }),
    ])
    expect(users).toEqual(['ana'])
    expect(changes).toEqual(['update ana'])
  })
})

describe('settling', () => {
  const old = feed(snapshot(9, [ana, bob, cem])).roster
  const settling = snapshot(1, [ana], { epoch: 'e2', settlingMs: 30_000 })

  test('the missing stay, marked stale, until the time is over', () => {
    const { roster, users, changes } = feed(settling, old, 1_000)
    expect(users).toEqual(['ana', 'bob', 'cem'])
    expect(changes).toEqual([])
    expect(roster.members.get('bob')?.stale).toBe(true)
    expect(roster.count).toBe(3)
    expect(roster.settledAt).toBe(31_000)
    const end = settle(roster)
    expect(end.roster.settledAt).toBeNull()
    expect(end.roster.list.map(({ user }) => user)).toEqual(['ana'])
    expect(end.changes.map(({ type, member }) => `${type} ${member.user}`)).toEqual([
      'leave bob',
      'leave cem',
    ])
  })

  test('who comes back loses the mark without a join', () => {
    const back = feed([settling, diff(1, 2, { join: [bob] })], old)
    expect(back.changes).toEqual([])
    expect(back.roster.members.get('bob')?.stale).toBeUndefined()
  })
})

describe('counts mode', () => {
  const counts = (type: string, version: number, count: number, sample: object[] = []) => ({
    type,
    room: 'r',
    epoch: 'e',
    version,
    mode: 'counts',
    count,
    sample,
  })

  test('a change of mode is nobody joining or leaving', () => {
    const crowd = feed([snapshot(1, [ana, bob]), counts('mode', 2, 201, [ana])])
    expect(crowd.changes).toEqual([])
    expect(crowd.roster).toMatchObject({ mode: 'counts', count: 201, list: [] })
    const names = feed({ ...snapshot(3, [ana, cem]), type: 'mode' }, crowd.roster)
    expect(names.changes).toEqual([])
    expect(names.users).toEqual(['ana', 'cem'])
  })

  test('count moves the number; an older one does not; a sample only when it comes', () => {
    const at = feed(counts('snapshot', 5, 300, [ana])).roster
    const count = (version: number, n: number, sample?: object[]) => ({
      type: 'count',
      room: 'r',
      version,
      count: n,
      sample,
    })
    expect(feed(count(6, 301), at).roster).toMatchObject({ count: 301, sample: [{ user: 'ana' }] })
    expect(feed(count(4, 9), at).roster.count).toBe(300)
    expect(feed(count(7, 302, [bob]), at).roster.sample).toMatchObject([{ user: 'bob' }])
    expect(feed(count(6, -1), at).roster.count).toBe(300)
  })

  test('a diff in counts mode, or a count in full mode, means that the change of mode was missed', () => {
    expect(feed([counts('snapshot', 5, 300), diff(5, 6, { join: [ana] })]).gaps).toEqual(['missed'])
    expect(feed([snapshot(5, [ana]), { type: 'count', room: 'r', version: 6, count: 300 }]).gaps).toEqual([
      'missed',
    ])
  })
})

describe('hostile frames', () => {
  test('ids that are names of the language are only ids', () => {
    const ids = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', '😀', 'a|b', '*']
    const members = ids.map((user) => ({ ...ana, user, info: {} }))
    const raw = `[${JSON.stringify(snapshot(1, members))},{"type":"diff","room":"r","prev":1,"version":2,"count":6,"update":[{"user":"__proto__","status":"away","data":{"__proto__":{"polluted":true}}}],"leave":[{"user":"constructor"}]}]`
    let roster = emptyRoster
    for (const frame of decodeFrames(raw)) roster = reduce(roster, frame as RosterFrame, 0).roster
    expect([...roster.members.keys()].sort()).toEqual(ids.filter((id) => id !== 'constructor').sort())
    expect(roster.members.get('__proto__')?.status).toBe('away')
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
    expect(roster.members.get('ghost')).toBeUndefined()
  })

  test('a diff that makes no sense fits nobody', () => {
    const [frame] = decodeFrames(JSON.stringify({ type: 'diff', room: 'r', prev: 2, version: 1 }))
    expect(frame).toMatchObject({ type: 'diff', room: 'r', prev: -1 })
  })

  test('so does one of which anything cannot be read', () => {
    const whole = diff(1, 2, { join: [ana], update: [bob], leave: [{ user: 'cem', reason: 'left' }] })
    const broken = [
      { prev: '1' },
      { version: 2.5 },
      { join: [ana, null] },
      { update: [{ ...bob, user: '' }] },
      { leave: [5] },
      { leave: [{ user: ['cem'] }] },
    ]
    const unread = { type: 'diff', room: 'r', prev: -1, join: [], update: [], leave: [] }
    for (const field of broken) {
      expect(decodeFrames(JSON.stringify([{ ...whole, ...field }, whole]))).toMatchObject([
        unread,
        { prev: 1 },
      ])
    }
  })

  test('what is not a frame vanishes', () => {
    const junk = [
      '',
      'null',
      '5',
      '"s"',
      '[',
      '[null,[],1]',
      '{}',
      '{"type":5}',
      '{"type":"nonsense","room":"r"}',
    ]
    for (const text of junk) expect(decodeFrames(text)).toEqual([])
    const bad = [
      { type: 'snapshot', room: 'r' },
      { type: 'snapshot', room: 'r', epoch: 'e', version: 1.5, mode: 'full', members: [] },
      { type: 'snapshot', room: 'r', epoch: 'e', version: 1, mode: 'full', members: {} },
      { type: 'diff', room: '', prev: 1, version: 2 },
      { type: 'count', room: 'r', version: 1, count: 'many' },
      { type: 'ready', connection: 5 },
      { type: 'error', code: 'bad_request', message: 'of nothing that was asked' },
      { type: '__proto__' },
    ]
    expect(decodeFrames(JSON.stringify(bad))).toEqual([])
  })

  test('half-broken members are mended or left out', () => {
    const raw = snapshot(1, [
      null,
      5,
      {},
      { user: '' },
      { user: 7 },
      { user: 'x', info: [], status: 'offline', connections: -3, data: 'text', since: 'now' },
    ])
    expect(feed(raw).roster.list).toEqual([
      { user: 'x', info: {}, status: 'active', connections: 1, since: 0, data: {} },
    ])
  })

  test('any order and repetition of frames leaves a roster that the next snapshot makes true', () => {
    const frames = [
      snapshot(1, [ana]),
      diff(1, 2, { join: [bob] }),
      diff(2, 3, { leave: [{ user: 'ana', reason: 'closed' }] }),
      diff(3, 4, { update: [{ ...bob, status: 'away' }] }),
      { type: 'resumed', room: 'r', epoch: 'e', version: 4 },
      { type: 'count', room: 'r', version: 4, count: 9 },
      snapshot(4, [{ ...bob, status: 'away' }]),
    ]
    let seed = 7
    const next = (n: number) => {
      seed = (seed * 1103515245 + 12345) % 2 ** 31
      return seed % n
    }
    for (let run = 0; run < 300; run++) {
      let roster: Roster = emptyRoster
      for (let i = 0; i < 12; i++) {
        roster = feed(frames[next(frames.length)], roster).roster
        expect(roster.count).toBe(roster.list.length)
        expect(roster.list.length).toBe(roster.members.size)
      }
      expect(feed(frames[6], roster).users).toEqual(['bob'])
    }
  })
})
