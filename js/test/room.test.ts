import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Room } from '../src/core/room.ts'
import { FakePage, World } from './fake/world.ts'

let world: World
beforeEach(() => {
  world = new World()
})
afterEach(() => {
  world.end()
})

const users = (room: Room) => room.members.get().map(({ user }) => user)
const both = ['websocket', 'sse'] as const

function eventsOf(room: Room): string[] {
  const events: string[] = []
  for (const type of ['join', 'update', 'leave'] as const) {
    room.on(type, ({ member }) => events.push(`${type} ${member.user} ${member.status}`))
  }
  return events
}

/** Ends the newest stream of either transport without a word. */
function drop(transport: 'websocket' | 'sse'): void {
  if (transport === 'websocket') world.socket.end(1006, null)
  else world.http.newest.end(0, null)
}

describe('stores', () => {
  test('run at once, tell changes, stop; and self and others part the members', async () => {
    world.client('bob').enter('r')
    const room = world.client('ana').enter('r', { data: { mood: 'calm' } })
    const counts: number[] = []
    const stop = room.count.subscribe((count) => counts.push(count))
    expect(counts).toEqual([0])
    expect(room.mode.get()).toBe(null)
    await world.pass()
    expect(counts).toEqual([0, 2])
    expect(room.self.get()).toMatchObject({ user: 'ana', data: { mood: 'calm' } })
    expect(room.others.get().map(({ user }) => user)).toEqual(['bob'])
    expect(room.mode.get()).toBe('full')
    stop()
    world.client('cem').enter('r')
    await world.pass()
    expect(counts).toEqual([0, 2])
    expect(users(room)).toEqual(['ana', 'bob', 'cem'])
  })

  test('who did not change keeps identity, through a reconnect too', async () => {
    const bob = world.client('bob').enter('r')
    const room = world.client('ana').enter('r')
    await world.pass()
    const before = room.others.get()
    let told = -1
    room.others.subscribe(() => told++)
    room.set({ x: 1 })
    world.socket.end(1006, null)
    await world.pass(300)
    expect(room.others.get()).toBe(before)
    expect(told).toBe(0)
    bob.set({ y: 2 })
    await world.pass(200)
    expect(room.others.get()[0]).toMatchObject({ data: { y: 2 } })
  })

  test('a subscriber or listener that throws is reported and disturbs nobody', async () => {
    const room = world.client('ana').enter('r')
    let armed = false
    room.members.subscribe(() => {
      if (armed) throw new Error('mine')
    })
    room.on('join', () => {
      throw new Error('mine too')
    })
    await world.pass()
    armed = true
    const seen: number[] = []
    room.count.subscribe((count) => seen.push(count))
    world.client('bob').enter('r')
    await world.pass()
    expect(seen).toEqual([1, 2])
    expect(world.errors.map(String)).toEqual(['Error: mine too', 'Error: mine'])
  })
})

describe('A15: nobody flickers', () => {
  test.each(both)(
    'ten reconnects: no event at others, and our own list never empties, %s',
    async (transport) => {
      const watcher = world.client('watcher').enter('r')
      await world.pass()
      const room = world.client('ana', { transport }).enter('r')
      await world.pass(200)
      const events = eventsOf(watcher)
      const lengths: number[] = []
      room.others.subscribe((others) => lengths.push(others.length))
      for (let i = 0; i < 10; i++) {
        drop(transport)
        await world.pass()
        expect(room.health.get().stale).toBe(true)
        expect(room.connection.get()).toBe('reconnecting')
        await world.pass(6_000)
        expect(room.health.get().stale).toBe(false)
      }
      expect(events).toEqual([])
      expect(Math.min(...lengths)).toBe(1)
    },
  )

  test('while the server settles, the missing are stale, not gone', async () => {
    const room = world.client('ana').enter('r')
    world.client('bob').enter('r')
    await world.pass(6_000)
    const lengths: number[] = []
    room.others.subscribe((others) => lengths.push(others.length))
    const events = eventsOf(room)
    world.server.options.settlingMs = 30_000
    world.random = 0
    const bobs = world.sockets.find(({ connection }) => connection?.user === 'bob')
    if (bobs) bobs.cut = true
    world.server.restart()
    await world.pass(100)
    expect(room.others.get()).toMatchObject([{ user: 'bob', stale: true }])
    expect(room.health.get()).toMatchObject({ settling: true, stale: false })
    expect(room.count.get()).toBe(2)
    await world.pass(31_000)
    expect(Math.min(...lengths)).toBe(1)
    // `since` is new after a loss of memory: an update, and no join or leave.
    expect(events).toEqual(['update ana active', 'update bob active'])
    expect(room.others.get()[0]?.stale).toBeUndefined()
    expect(room.health.get().settling).toBe(false)
  })

  test('who does not come back leaves when the settling is over', async () => {
    const room = world.client('ana').enter('r')
    const bob = world.client('bob')
    bob.enter('r')
    await world.pass(6_000)
    const events = eventsOf(room)
    world.server.options.settlingMs = 5_000
    world.server.restart()
    bob.close()
    await world.pass(4_000)
    expect(users(room)).toEqual(['ana', 'bob'])
    await world.pass(2_000)
    expect(users(room)).toEqual(['ana'])
    expect(events.filter((event) => !event.startsWith('update'))).toEqual(['leave bob active'])
  })

  test('the end of the settling shows with the next beat where timers are throttled', async () => {
    const room = world.client('ana').enter('r')
    const bob = world.client('bob')
    bob.enter('r')
    await world.pass(6_000)
    world.server.options.settlingMs = 5_000
    world.server.restart()
    bob.close()
    await world.pass(300)
    expect(users(room)).toEqual(['ana', 'bob'])
    // What was set fires once more, and sets nothing anew.
    world.stalled = true
    world.socket.send(world.server.state('r'))
    await world.pass(20_000)
    expect(users(room)).toEqual(['ana'])
  })
})

describe('gaps', () => {
  const gap = { type: 'diff', room: 'r', prev: 50, version: 51, count: 9, join: [] }

  test('WebSocket: a snapshot is asked for, once', async () => {
    const room = world.client('ana').enter('r')
    await world.pass()
    world.socket.send([gap, { ...gap, prev: 51, version: 52 }])
    world.socket.send([{ ...gap, prev: 52, version: 53 }])
    await world.pass()
    expect(world.server.said.filter(({ type }) => type === 'snapshot').length).toBeLessThanOrEqual(2)
    expect(users(room)).toEqual(['ana'])
    expect(room.health.get().stale).toBe(false)
  })

  test('SSE: a new stream with resume alone, which claims no state', async () => {
    const room = world.client('ana', { transport: 'sse' }).enter('r')
    await world.pass()
    world.http.newest.send([gap])
    await world.pass(300)
    expect(world.http.opens.length).toBe(2)
    const { url, headers } = world.http.opens[1] as { url: URL; headers: object }
    expect(url.searchParams.has('resume')).toBe(true)
    expect(url.searchParams.has('since')).toBe(false)
    expect(headers).not.toHaveProperty('Last-Event-ID')
    expect(room.health.get().stale).toBe(false)
  })

  test('SSE: what another room was told in the same moment shows at once', async () => {
    const client = world.client('ana', { transport: 'sse' })
    const [room, other] = [client.enter('r'), client.enter('s')]
    await world.pass()
    const { version } = world.server.room('s')
    const ben = { user: 'ben', info: {}, status: 'active', connections: 1, since: 1, data: {} }
    world.http.down = true
    world.http.newest.send([
      { type: 'diff', room: 's', prev: version, version: version + 1, count: 2, join: [ben] },
      gap,
    ])
    await world.pass(100)
    expect([room, other].map(users)).toEqual([['ana'], ['ana', 'ben']])
  })

  test('a server that is wrong for ever is not asked more than about once a second', async () => {
    world.client('ana').enter('r')
    await world.pass()
    for (let i = 0; i < 100; i++) {
      world.socket.send([{ ...gap, prev: 50 + i, version: 51 + i }])
      await world.pass(100)
    }
    expect(world.server.said.filter(({ type }) => type === 'snapshot').length).toBeLessThanOrEqual(11)
  })

  test('a replica that is behind does not take anyone away', async () => {
    const room = world.client('ana').enter('r')
    world.client('bob').enter('r')
    await world.pass()
    const events = eventsOf(room)
    const { epoch, version } = world.server.room('r')
    const socket = world.sockets[0]
    socket?.send([
      {
        type: 'snapshot',
        room: 'r',
        epoch,
        version: version - 1,
        mode: 'full',
        count: 1,
        members: world.server.roster('r').slice(0, 1),
      },
    ])
    expect(users(room)).toEqual(['ana', 'bob'])
    await world.pass(2_000)
    expect(world.server.said.filter(({ type }) => type === 'snapshot').length).toBe(1)
    expect(events).toEqual([])
    expect(users(room)).toEqual(['ana', 'bob'])
  })
})

describe('A42, A43: connections and entries', () => {
  test('two clients of one user are two connections; the state of one does not touch the other', async () => {
    const one = world.client('ana').enter('r', { data: { n: 1 } })
    const two = world.client('ana')
    two.enter('r', { data: { n: 2 } })
    await world.pass()
    expect(one.self.get()).toMatchObject({ connections: 2, data: { n: 2 } })
    two.close()
    await world.pass()
    expect(one.self.get()).toMatchObject({ connections: 1, data: { n: 1 } })
  })

  test('entries of one client into one room share the lease; the late leave of the first removes nothing', async () => {
    const watcher = world.client('watcher').enter('r')
    await world.pass()
    const events = eventsOf(watcher)
    const client = world.client('ana')
    const first = client.enter('r')
    const second = client.enter('r')
    await world.pass()
    first.leave()
    first.leave()
    await world.pass()
    expect(users(second)).toEqual(['ana', 'watcher'])
    expect(() => first.set({ a: 1 })).toThrow('left')
    second.leave()
    await world.pass()
    expect(events).toEqual(['join ana active', 'leave ana active'])
  })

  test('join, leave, join within a tick ends in the room, with one connection', async () => {
    const client = world.client('ana')
    client.enter('r').leave()
    const room = client.enter('r')
    await world.pass()
    expect(users(room)).toEqual(['ana'])
    expect(world.sockets.length).toBe(1)
  })

  test('after the last leave there is no timer, no listener, no connection', async () => {
    const page = new FakePage()
    const client = world.client('ana', {}, page)
    const a = client.enter('a')
    const b = client.enter('b')
    await world.pass(200)
    a.leave()
    await world.pass()
    expect(world.users('a')).toEqual([])
    expect(world.users('b')).toEqual(['ana'])
    b.leave()
    await world.pass()
    expect(world.users('b')).toEqual([])
    expect(client.connection.get()).toBe('initial')
    expect(page.listeners).toBe(0)
    world.server.stop()
    const { vi } = await import('vitest')
    expect(vi.getTimerCount()).toBe(0)
    client.enter('a')
    await world.pass()
    expect(world.users('a')).toEqual(['ana'])
  })

  test('an observer may enter again to be present', async () => {
    for (const transport of both) {
      const client = world.client('ana', { transport })
      const room = client.enter(transport, { observe: true })
      await world.pass()
      expect(world.users(transport)).toEqual([])
      client.enter(transport, { data: { now: 'here' } })
      await world.pass()
      expect(room.self.get()).toMatchObject({ user: 'ana', data: { now: 'here' } })
    }
  })
})

describe('the server ends our lease in a room', () => {
  test('the room says so, stays left over a reconnect, and can be entered anew', async () => {
    const client = world.client('ana')
    const room = client.enter('r')
    const other = client.enter('other')
    await world.pass(6_000)
    const reasons: string[] = []
    room.on('ended', ({ reason }) => reasons.push(reason))
    const connection = world.socket.connection
    if (connection) world.server.leave(connection, 'r', 'kicked')
    world.socket.send([{ type: 'ended', room: 'r', reason: 'kicked' }])
    expect(reasons).toEqual(['kicked'])
    expect(room.health.get().ended).toBe('kicked')
    expect(users(room)).toEqual([])
    world.socket.end(1006, null)
    await world.pass(300)
    expect(world.users('r')).toEqual([])
    expect(users(other)).toEqual(['ana'])
    client.enter('r')
    await world.pass()
    expect(users(room)).toEqual(['ana'])
    expect(room.health.get().ended).toBe(null)
  })
})

describe('counts mode', () => {
  test('the number moves, names go and come back, and self stays', async () => {
    world.end()
    world = new World({ countsAbove: 3, countsBelow: 3 })
    const room = world.client('ana').enter('r', { data: { me: 1 } })
    const modes: string[] = []
    room.on('mode', ({ mode }) => modes.push(mode))
    const events = eventsOf(room)
    await world.pass()
    const crowd = ['b', 'c', 'd', 'e'].map((user) => world.client(user))
    for (const client of crowd) client.enter('r')
    await world.pass(200)
    expect(room.mode.get()).toBe('counts')
    expect(room.count.get()).toBe(5)
    expect(room.others.get()).toEqual([])
    expect(room.sample.get().map(({ user }) => user)).toContain('ana')
    room.set({ me: 2 })
    await world.pass(200)
    expect(events.filter((event) => event.startsWith('leave'))).toEqual([])
    for (const client of crowd.slice(1)) client.close()
    await world.pass(200)
    expect(room.mode.get()).toBe('full')
    expect(users(room)).toEqual(['ana', 'b'])
    expect(modes).toEqual(['counts', 'full'])
    expect(room.self.get()?.data).toEqual({ me: 2 })
  })
})

describe('hostile messages on an open connection', () => {
  test('nothing throws, nothing is corrupted, the connection stays', async () => {
    const room = world.client('ana').enter('r')
    await world.pass()
    const odd = [
      [null, 5, 'x', []],
      [{ type: 'ok', id: 999 }, { type: 'error', id: 999, code: 'x' }, { type: 'error' }],
      [
        { type: 'signals', room: 'r', signals: null },
        { type: 'page' },
        { type: 'from the future', room: 'r' },
      ],
      [
        { type: 'diff', room: '__proto__', prev: 0, version: 1 },
        { type: 'snapshot', room: 'constructor' },
      ],
      [{ type: 'beat' }, { type: 'health' }, { type: 'expiring', inMs: 'soon' }, { type: 'pong', n: {} }],
    ]
    for (const frames of odd) world.socket.send(frames as object[])
    await world.pass()
    expect(users(room)).toEqual(['ana'])
    expect(world.sockets.length).toBe(1)
    expect(world.errors).toEqual([])
  })
})
