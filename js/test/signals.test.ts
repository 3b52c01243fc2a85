import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Room } from '../src/core/room.ts'
import { World } from './fake/world.ts'

let world: World
beforeEach(() => {
  world = new World()
})
afterEach(() => {
  expect(world.errors).toEqual([])
  world.end()
})

const both = ['websocket', 'sse'] as const
const values = (room: Room, kind = 'cursor') => [...room.signals(kind).get().values()].map(({ data }) => data)
const said = (kind: string) => world.server.said.filter((m) => m.type === 'signal' && m.kind === kind)

describe('signals', () => {
  test.each(both)('reach the others and not oneself, the newest wins, null ends: %s', async (transport) => {
    const bob = world.client('bob').enter('r')
    const room = world.client('ana', { transport }).enter('r')
    await world.pass()
    room.signal('cursor', { x: 1 }, { docVersion: 7 })
    room.signal('selection', [1, 2])
    await world.pass(100)
    const [signal] = [...bob.signals('cursor').get().values()]
    expect(signal).toMatchObject({ user: 'ana', kind: 'cursor', data: { x: 1 }, docVersion: 7 })
    expect(values(bob, 'selection')).toEqual([[1, 2]])
    expect(values(room)).toEqual([])
    expect(bob.signals('cursor')).toBe(bob.signals('cursor'))
    room.signal('cursor', null)
    await world.pass(100)
    expect(values(bob)).toEqual([])
    expect(values(bob, 'selection')).toEqual([[1, 2]])
  })

  test.each(both)('120 moves a second cost 20, and the last one arrives: %s', async (transport) => {
    const bob = world.client('bob').enter('r')
    const room = world.client('ana', { transport }).enter('r')
    await world.pass()
    for (let i = 0; i < 240; i++) {
      room.signal('cursor', { i })
      await world.pass(1_000 / 120)
    }
    await world.pass(100)
    expect(values(bob)).toEqual([{ i: 239 }])
    expect(said('cursor').length).toBeLessThanOrEqual(42)
    expect(said('cursor').length).toBeGreaterThanOrEqual(30)
  })

  test('two tabs of one user see each other', async () => {
    const [one, two] = [world.client('ana').enter('r'), world.client('ana').enter('r')]
    await world.pass()
    one.signal('cursor', 1)
    await world.pass(100)
    expect([values(one), values(two)]).toEqual([[], [1]])
  })

  test('end here too when their time is over, though the server says nothing', async () => {
    const bob = world.client('bob').enter('r')
    const room = world.client('ana').enter('r')
    await world.pass()
    room.signal('cursor', 1, { ttlMs: 2_000 })
    await world.pass(100)
    world.server.stop()
    const told: number[] = []
    bob.signals('cursor').subscribe((signals) => told.push(signals.size))
    await world.pass(1_800)
    expect(told).toEqual([1])
    await world.pass(200)
    expect(told).toEqual([1, 0])
  })

  test('a selection lives until its connection goes, and goes with it', async () => {
    const bob = world.client('bob').enter('r')
    const room = world.client('ana').enter('r')
    await world.pass()
    room.signal('selection', 1)
    await world.pass(120_000)
    expect(values(bob, 'selection')).toEqual([1])
    room.leave()
    await world.pass()
    expect(values(bob, 'selection')).toEqual([])
  })

  test('a newcomer sees what lives; full replaces everything', async () => {
    const room = world.client('ana').enter('r')
    await world.pass()
    room.signal('cursor', 1)
    await world.pass(100)
    const bob = world.client('bob').enter('r')
    await world.pass()
    expect(values(bob)).toEqual([1])
    world.server.broadcast('r', { type: 'signals', room: 'r', signals: [], full: true })
    await world.pass()
    expect(values(bob)).toEqual([])
  })

  test.each(both)(
    'what still lives is said again on a new stream, what is over is not: %s',
    async (transport) => {
      const bob = world.client('bob').enter('r')
      await world.pass()
      const room = world.client('ana', { transport }).enter('r')
      await world.pass()
      room.signal('cursor', 1, { ttlMs: 60_000 })
      room.signal('note', 1, { ttlMs: 1_000 })
      await world.pass(100)
      world.server.room('r').signals.clear()
      world.server.broadcast('r', { type: 'signals', room: 'r', signals: [], full: true })
      await world.pass(2_000)
      if (transport === 'websocket') world.socket.end(1006, null)
      else world.http.newest.end(0, null)
      await world.pass(500)
      expect([values(bob), values(bob, 'note')]).toEqual([[1], []])
      expect(Number(said('cursor').at(-1)?.ttlMs)).toBeLessThan(58_000)
    },
  )

  test('what is set while disconnected goes out with the next stream', async () => {
    const bob = world.client('bob').enter('r')
    await world.pass()
    const room = world.client('ana').enter('r')
    room.signal('cursor', 0)
    await world.pass(100)
    expect(values(bob)).toEqual([0])
    world.socket.end(1006, null)
    room.signal('cursor', 1)
    room.signal('cursor', 2)
    await world.pass(1_000)
    expect(values(bob)).toEqual([2])
    expect(said('cursor').map(({ data }) => data)).not.toContain(1)
  })

  test('what ended while we were away is not in the snapshot, and so not here', async () => {
    const ana = world.client('ana').enter('r')
    await world.pass()
    const bob = world.client('bob').enter('r')
    await world.pass()
    ana.signal('selection', 1)
    await world.pass(100)
    const [before] = bob.signals('selection').get().values()
    world.server.room('r').version += 5
    world.socket.end(1006, null)
    await world.pass(500)
    expect([...bob.signals('selection').get().values()][0]).toBe(before)
    world.server.room('r').version += 5
    world.server.room('r').signals.clear()
    world.socket.end(1006, null)
    await world.pass(5_000)
    expect(bob.health.get().stale).toBe(false)
    expect(values(bob, 'selection')).toEqual([])
  })

  test('who did not move keeps identity', async () => {
    const bob = world.client('bob').enter('r')
    const [ana, cem] = [world.client('ana').enter('r'), world.client('cem').enter('r')]
    await world.pass()
    ana.signal('cursor', 1)
    cem.signal('cursor', 1)
    await world.pass(100)
    const before = [...bob.signals('cursor').get().values()]
    cem.signal('cursor', 2)
    await world.pass(100)
    const after = [...bob.signals('cursor').get().values()]
    expect(after[0]).toBe(before[0])
    expect(after[1]).not.toBe(before[1])
    let told = -1
    bob.signals('cursor').subscribe(() => told++)
    ana.signal('cursor', 1)
    await world.pass(100)
    expect(told).toBe(0)
  })

  test('refusals and mistakes are said', async () => {
    const room = world.client('ana').enter('r')
    expect(() => room.signal('cursor', { x: Number.NaN })).toThrow('NaN')
    expect(() => room.signal('cursor', 'x'.repeat(1_100))).toThrow('1024')
    expect(() => room.signal('', 1)).toThrow('kind')
    for (let i = 0; i < 8; i++) room.signal(`k${i}`, i)
    expect(() => room.signal('k9', 1)).toThrow('8 kinds')
    const watcher = world.client('obs').enter('r', { observe: true })
    expect(() => watcher.signal('cursor', 1)).toThrow('observer')
    await world.pass(100)
    room.leave()
    expect(() => room.signal('cursor', 1)).toThrow('left')
    expect(said('k7')).toHaveLength(1)
  })
})

describe('A09: a late signal makes nobody', () => {
  const late = (user: string) => ({
    type: 'signals',
    room: 'r',
    signals: [{ user, connection: 'gone', kind: 'cursor', data: 1, ttlMs: 30_000 }],
  })

  test('after the leave it is not shown, nor when that user is back', async () => {
    const bob = world.client('bob').enter('r')
    const ana = world.client('ana')
    const room = ana.enter('r')
    await world.pass()
    room.signal('cursor', 0)
    await world.pass(100)
    const sizes: number[] = []
    bob.signals('cursor').subscribe((signals) => sizes.push(signals.size))
    room.leave()
    await world.pass()
    world.server.broadcast('r', late('ana'))
    await world.pass(1_500)
    ana.enter('r')
    await world.pass(1_500)
    expect(sizes).toEqual([1, 0])
    expect(bob.members.get().map(({ user }) => user)).toEqual(['ana', 'bob'])
  })

  test('but one that came a moment before the join is', async () => {
    const bob = world.client('bob').enter('r')
    await world.pass()
    world.server.broadcast('r', late('ana'))
    await world.pass(100)
    expect(values(bob)).toEqual([])
    world.client('ana').enter('r')
    await world.pass()
    expect(values(bob)).toEqual([1])
  })

  test('one’s own leave forgets all, and what comes then is nothing', async () => {
    const bob = world.client('bob')
    const room = bob.enter('r')
    bob.enter('s')
    world.client('ana').enter('r').signal('cursor', 1)
    await world.pass(100)
    expect(values(room)).toEqual([1])
    room.leave()
    expect(values(room)).toEqual([])
    const connection = [...world.server.connections.values()].find(({ user }) => user === 'bob')
    connection?.port?.send([late('ana')])
    await world.pass()
    expect(values(room)).toEqual([])
  })

  test('frames of any shape break nothing', async () => {
    const bob = world.client('bob').enter('r')
    world.client('ana').enter('r')
    await world.pass()
    const good = { user: 'ana', connection: 'c9', kind: '__proto__', data: { __proto__: 1 }, docVersion: {} }
    const signals = [null, 1, {}, { user: 'ana' }, { ...good, kind: 1 }, { ...good, ttlMs: 'x' }, good]
    world.server.broadcast('r', { type: 'signals', room: 'r', signals })
    world.server.broadcast('r', { type: 'signals', room: 'r' })
    await world.pass()
    expect(values(bob, '__proto__')).toHaveLength(1)
    expect([...bob.signals('__proto__').get().values()][0]?.docVersion).toBe(null)
  })
})

describe('A50: typing', () => {
  const typists = (room: Room) => [...room.signals('typing').get().values()].map(({ user }) => user)

  test('50 keys a second are at most one message a second; it ends three seconds after the last', async () => {
    const bob = world.client('bob').enter('r')
    const room = world.client('ana').enter('r')
    await world.pass()
    for (let i = 0; i < 250; i++) {
      room.typing()
      await world.pass(20)
    }
    expect(said('typing').length).toBeLessThanOrEqual(6)
    expect(typists(bob)).toEqual(['ana'])
    await world.pass(4_000)
    expect(typists(bob)).toEqual([])
    const messages = said('typing').length
    await world.pass(10_000)
    expect(said('typing').length).toBe(messages)
  })

  test('false ends it at once, and the next key begins anew at once', async () => {
    const bob = world.client('bob').enter('r')
    const room = world.client('ana').enter('r')
    await world.pass()
    room.typing()
    await world.pass(100)
    expect(typists(bob)).toEqual(['ana'])
    room.typing(false)
    await world.pass(100)
    expect(typists(bob)).toEqual([])
    room.typing()
    await world.pass(100)
    expect(typists(bob)).toEqual(['ana'])
  })

  test('cut off in the middle of a word it ends long before the leave; a newcomer sees none', async () => {
    const bob = world.client('bob').enter('r')
    await world.pass()
    const room = world.client('ana').enter('r')
    await world.pass()
    room.typing()
    await world.pass(100)
    world.socket.cut = true
    await world.pass(3_900)
    expect(typists(bob)).toEqual([])
    expect(bob.others.get()).toHaveLength(1)
    const cem = world.client('cem').enter('r')
    await world.pass()
    expect(typists(cem)).toEqual([])
  })
})
