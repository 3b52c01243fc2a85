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

describe('desired state', () => {
  test.each(both)(
    'A11: a server that forgot everything is told the whole; then a patch works, %s',
    async (transport) => {
      const watcher = world.client('watcher', { transport }).enter('r')
      const room = world.client('ana', { transport }).enter('r', { data: { name: 'A', color: 'red' } })
      await world.pass(1_000)
      room.set({ tool: 'pen' })
      await world.pass(200)
      world.server.restart()
      await world.pass(1_000)
      expect(world.users('r')).toEqual(['ana', 'watcher'])
      expect(watcher.others.get()[0]?.data).toEqual({ name: 'A', color: 'red', tool: 'pen' })
      room.set({ color: 'blue' })
      await world.pass(200)
      expect(watcher.others.get()[0]?.data).toEqual({ name: 'A', color: 'blue', tool: 'pen' })
    },
  )

  test.each(both)(
    'what was set while cut off arrives, and a key removed meanwhile is gone, %s',
    async (transport) => {
      const room = world.client('ana', { transport }).enter('r', { data: { a: 1, b: 2 } })
      await world.pass(200)
      drop(transport)
      room.set({ c: 3 })
      room.set({ c: 4 }, { replace: true })
      await world.pass(500)
      expect(world.server.roster('r')[0]?.data).toEqual({ c: 4 })
    },
  )

  test.each(both)('A12: idle stays idle through reconnects; nobody hears of them, %s', async (transport) => {
    const watcher = world.client('watcher').enter('r')
    const page = new FakePage()
    world.client('ana', { transport }, page).enter('r')
    await world.pass(121_000)
    expect(watcher.others.get()[0]?.status).toBe('idle')
    const events = eventsOf(watcher)
    for (let i = 0; i < 5; i++) {
      drop(transport)
      await world.pass(6_000)
    }
    expect(events).toEqual([])
    page.input()
    await world.pass(200)
    expect(events).toEqual(['update ana active'])
  })

  test('idle time runs on while there is no connection', async () => {
    const watcher = world.client('watcher').enter('r')
    await world.pass()
    const page = new FakePage()
    world.client('ana', { transport: 'websocket' }, page).enter('r')
    await world.pass(100_000)
    world.refuse = [1006, 1006, 1006, 1006, 1006]
    world.socket.end(1006, null)
    await world.pass(60_000)
    expect(watcher.others.get()[0]).toMatchObject({ user: 'ana', status: 'idle' })
  })

  test('hidden is away, at once; a chosen status beats both until it is given back', async () => {
    const page = new FakePage()
    const room = world.client('ana', {}, page).enter('r')
    await world.pass(200)
    page.setHidden(true)
    await world.pass()
    expect(world.server.roster('r')[0]?.status).toBe('away')
    room.setStatus('active')
    await world.pass(200)
    expect(world.server.roster('r')[0]?.status).toBe('active')
    room.setStatus(null)
    await world.pass(200)
    expect(world.server.roster('r')[0]?.status).toBe('away')
  })

  test('ten sets a second at most; the newest of each key always arrives', async () => {
    const room = world.client('ana').enter('r')
    await world.pass(1_000)
    for (let i = 0; i < 100; i++) {
      room.set({ i, [`k${i % 3}`]: i })
      await world.pass(10)
    }
    await world.pass(200)
    const sets = world.server.said.filter(({ type }) => type === 'set')
    expect(sets.length).toBeGreaterThanOrEqual(9)
    expect(sets.length).toBeLessThanOrEqual(11)
    expect(world.server.roster('r')[0]?.data).toEqual({ i: 99, k0: 99, k1: 97, k2: 98 })
  })

  test('a set that a throttled timer left lying goes with the next frame', async () => {
    const room = world.client('ana').enter('r')
    await world.pass(1_000)
    room.set({ a: 1 })
    // A timer that was asked for and does not come: as in a hidden tab.
    world.stalled = true
    room.set({ a: 2 })
    await world.pass(9_000)
    expect(world.server.roster('r')[0]?.data).toEqual({ a: 2 })
  })
})

describe('A32: data that JSON cannot carry is refused at the call', () => {
  test.each([
    [{ x: Number.NaN }, 'data.x is NaN'],
    [{ deep: [1, { y: Number.POSITIVE_INFINITY }] }, 'data.deep[1].y is Infinity'],
    [{ f: () => 0 }, 'function'],
    [{ n: 1n }, 'bigint'],
    [[1], 'must be an object'],
    [5, 'must be an object'],
    [null, 'must be an object'],
    [{ text: 'x'.repeat(1_100) }, 'the limit is 1024'],
    [{ text: '😀'.repeat(260) }, 'the limit is 1024'],
  ])('%#: %s', async (data, message) => {
    const room = world.client('ana').enter('r', { data: { kept: true } })
    await world.pass(200)
    expect(() => room.set(data as object)).toThrow(message)
    await world.pass(200)
    expect(world.server.roster('r')[0]?.data).toEqual({ kept: true })
  })

  test('circles, toJSON and undefined', () => {
    const client = world.client('ana')
    const room = client.enter('r')
    const circle: Record<string, unknown> = {}
    circle.me = circle
    expect(() => room.set(circle)).toThrow('circle')
    const endless: Record<string, unknown> = {}
    endless.toJSON = () => endless
    expect(() => room.set(endless)).toThrow('circle')
    room.set({ at: new Date(0), nothing: undefined, none: null })
    expect(() => client.enter('other', { data: { x: Number.NaN } })).toThrow('NaN')
    for (const id of ['', '.', '..', 'x'.repeat(257), '\ud800'])
      expect(() => client.enter(id)).toThrow('room')
  })

  test('the size counts after the merge', async () => {
    const room = world.client('ana').enter('r', { data: { a: 'x'.repeat(600) } })
    expect(() => room.set({ b: 'x'.repeat(600) })).toThrow('1024')
    room.set({ b: 'x'.repeat(600) }, { replace: true })
    await world.pass()
    expect(Object.keys(world.server.roster('r')[0]?.data ?? {})).toEqual(['b'])
  })

  test('a key named __proto__ is a key', async () => {
    const room = world.client('ana').enter('r')
    room.set(JSON.parse('{"__proto__":{"x":1}}'))
    await world.pass(200)
    const join = world.server.said.find(({ type }) => type === 'join')
    expect(JSON.stringify(join?.data)).toBe('{"__proto__":{"x":1}}')
    expect(({} as { x?: number }).x).toBeUndefined()
  })
})
