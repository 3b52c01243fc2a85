import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createClient } from '../src/core/client.ts'
import type { Room } from '../src/core/room.ts'
import { FakePage, World } from './fake/world.ts'

let world: World
beforeEach(() => {
  world = new World()
})
afterEach(() => {
  expect(world.errors).toEqual([])
  world.end()
})

/** Everything a store was, in order. */
function record<T>(store: { subscribe(fn: (value: T) => void): () => void }): T[] {
  const values: T[] = []
  store.subscribe((value) => values.push(value))
  return values
}

function eventsOf(room: Room): string[] {
  const events: string[] = []
  room.on('join', ({ member }) => events.push(`join ${member.user}`))
  room.on('leave', ({ member, reason }) => events.push(`leave ${member.user} ${reason}`))
  return events
}

const users = (room: Room) => room.members.get().map(({ user }) => user)

describe('states', () => {
  test('initial, connecting, connected, reconnecting, connected, disconnected', async () => {
    const client = world.client('ana')
    const states = record(client.connection)
    await world.pass()
    expect(world.sockets.length).toBe(0)
    client.enter('r')
    await world.pass()
    world.socket.end(1006, null)
    await world.pass(300)
    client.close()
    await world.pass()
    expect(states).toEqual([
      'initial',
      'connecting',
      'connected',
      'reconnecting',
      'connected',
      'disconnected',
    ])
  })

  test('the first return is within 300 ms and resumes the connection', async () => {
    const client = world.client('ana')
    client.enter('r')
    await world.pass()
    const first = world.socket.connection?.id
    world.random = 0.99
    world.socket.end(1006, null)
    await world.pass(300)
    expect(world.sockets.length).toBe(2)
    expect(world.socket.url.searchParams.get('resume')).toContain(`${first}.`)
    expect(world.socket.connection?.id).toBe(first)
  })

  test('back-off grows with full jitter up to a cap, and starts anew after a good connection', async () => {
    const client = world.client('ana', { transport: 'websocket' })
    client.enter('r')
    world.random = 0.999
    world.refuse = Array(8).fill(1006)
    await world.pass(120_000)
    const gaps = world.opens.slice(1).map((at, i) => Math.round((at - (world.opens[i] ?? 0)) / 100) / 10)
    expect(gaps).toEqual([0.3, 1, 2, 4, 8, 16, 20, 20])
    await world.pass(10_000)
    expect(client.connection.get()).toBe('connected')
    world.socket.end(1006, null)
    await world.pass(300)
    expect(client.connection.get()).toBe('connected')
  })

  test('a crowd spreads: no 100 ms of the second wave has more than 15 %', async () => {
    const { backoffMs } = await import('../src/core/backoff.ts')
    const slots = new Map<number, number>()
    for (let i = 0; i < 2000; i++) {
      const slot = Math.floor(backoffMs(1, null, Math.random) / 100)
      slots.set(slot, (slots.get(slot) ?? 0) + 1)
    }
    expect(Math.max(...slots.values())).toBeLessThan(2000 * 0.15)
  })

  test('the hint of the server is kept', async () => {
    const client = world.client('ana')
    client.enter('r')
    await world.pass()
    world.socket.end(4503, { type: 'bye', reason: 'draining', reconnectMs: 2_500 })
    await world.pass(2_499)
    expect(world.sockets.length).toBe(1)
    await world.pass(2)
    expect(world.sockets.length).toBe(2)
  })

  test.each([
    ['code 4400', 4400, null],
    ['code 4403', 4403, null],
    ['code 4413', 4413, null],
    ['bye kicked', 4403, { type: 'bye', reason: 'kicked', reconnectMs: null }],
    ['bye revoked', 4401, { type: 'bye', reason: 'revoked', reconnectMs: null }],
    ['token without a way to renew it', 4401, null],
  ])('stops for good: %s', async (_name, code, frame) => {
    const client = world.client('ana')
    const room = client.enter('r')
    await world.pass()
    world.socket.end(code, frame)
    await world.pass(120_000)
    expect(world.sockets.length).toBe(1)
    expect(client.connection.get()).toBe('disconnected')
    expect(client.error?.retry ?? client.error?.code).toBeDefined()
    expect(room.health.get().error).toBe(client.error)
    // Entering again is the application's word to try again.
    client.enter('r2')
    await world.pass()
    expect(client.connection.get()).toBe('connected')
  })

  test('replaced: comes back as a new connection', async () => {
    const client = world.client('ana')
    client.enter('r')
    await world.pass()
    world.socket.end(4409, { type: 'bye', reason: 'replaced', reconnectMs: null })
    await world.pass(300)
    expect(world.sockets.length).toBe(2)
    expect(world.socket.url.searchParams.has('resume')).toBe(false)
  })

  test('a handshake that hangs is given up', async () => {
    world.hang = true
    const client = world.client('ana', { connectTimeoutMs: 4_000, transport: 'websocket' })
    client.enter('r')
    await world.pass(4_000)
    world.hang = false
    await world.pass(300)
    expect(client.connection.get()).toBe('connected')
  })

  test('silence for 1.6 beats means dead; beats keep it alive', async () => {
    const client = world.client('ana')
    client.enter('r')
    await world.pass(60_000)
    expect(world.sockets.length).toBe(1)
    world.socket.cut = true
    await world.pass(1.6 * 9_000 + 300)
    expect(world.sockets.length).toBe(2)
    expect(client.connection.get()).toBe('connected')
  })
})

describe('tokens', () => {
  test('a token goes along as a subprotocol, and no guest name with it', async () => {
    const client = world.client('ana', { auth: 'ana.tok.en', guest: { user: 'x' } })
    client.enter('r')
    await world.pass()
    expect(world.socket.protocols).toEqual(['rollcall.v1', 'bearer.ana.tok.en'])
    expect(world.socket.url.search).toBe('')
    expect(world.users('r')).toEqual(['ana'])
  })

  test('4401: one new token, then stop', async () => {
    let asked = 0
    const client = world.client('ana', { auth: async () => `ana.${++asked}` })
    client.enter('r')
    await world.pass()
    world.socket.end(4401, { type: 'bye', reason: 'token', reconnectMs: null })
    await world.pass(300)
    expect(world.socket.protocols[1]).toBe('bearer.ana.2')
    world.socket.end(4401, null)
    await world.pass(60_000)
    expect(asked).toBe(2)
    expect(client.connection.get()).toBe('disconnected')
  })

  test('a token source that fails is tried again', async () => {
    let asked = 0
    const auth = async () => {
      if (++asked === 1) throw new Error('offline')
      return 'ana.1'
    }
    const client = world.client('ana', { auth })
    client.enter('r')
    await world.pass(300)
    expect(client.connection.get()).toBe('connected')
  })

  test('expiring: a new token is handed over on the open stream', async () => {
    let asked = 0
    const client = world.client('ana', { auth: () => `ana.${++asked}` })
    client.enter('r')
    await world.pass()
    world.socket.send([{ type: 'expiring', inMs: 60_000 }])
    await world.pass()
    expect(world.server.said).toContainEqual({ connection: 'c1', type: 'auth', token: 'ana.2' })
  })
})

describe('transports', () => {
  test('SSE after two WebSockets that never opened; then it stays', async () => {
    const client = world.client('ana')
    const room = client.enter('r', { data: { a: 1 } })
    world.refuse = [1006, 1006]
    await world.pass(2_000)
    expect(world.sockets.length).toBe(2)
    expect(client.connection.get()).toBe('connected')
    expect(users(room)).toEqual(['ana'])
    expect(world.server.roster('r')[0]?.data).toEqual({ a: 1 })
    await world.pass(6_000)
    world.http.newest.end(0, null)
    await world.pass(300)
    expect(world.sockets.length).toBe(2)
    expect(world.http.opens.length).toBe(2)
  })

  test('A36: 502, 503 with Retry-After, 429, then in; attempts are far enough apart', async () => {
    world.http.refuse = [{ status: 502 }, { status: 503, retryAfter: '1' }, { status: 429 }]
    const client = world.client('ana', { transport: 'sse' })
    client.enter('r')
    await world.pass(10_000)
    expect(world.users('r')).toEqual(['ana'])
    const at = world.http.opens.map((open) => open.at)
    expect((at[2] ?? 0) - (at[1] ?? 0)).toBeGreaterThanOrEqual(1_000)
  })

  test('A36: 204 stops; 401 gets one new token and then stops', async () => {
    world.http.refuse = [{ status: 204 }]
    const one = world.client('ana', { transport: 'sse' })
    one.enter('r')
    await world.pass(30_000)
    expect(world.http.opens.length).toBe(1)
    expect(one.connection.get()).toBe('disconnected')
    let asked = 0
    world.http.refuse = [{ status: 401 }, { status: 401 }]
    const two = world.client('bob', { transport: 'sse', auth: async () => `bob.${++asked}` })
    two.enter('r')
    await world.pass(60_000)
    expect(world.http.opens.length).toBe(3)
    expect(world.http.opens[2]?.headers.Authorization).toBe('Bearer bob.2')
    expect(two.error?.code).toBe('unauthorized')
  })

  test('a WebSocket that cannot be made is a failed attempt: SSE after two', async () => {
    const openSocket = () => {
      throw new SyntaxError('not an address')
    }
    const client = createClient({ guest: { user: 'ana' } }, { ...world.environment(), openSocket })
    const room = client.enter('r')
    await world.pass(5_000)
    expect(users(room)).toEqual(['ana'])
    expect(world.http.opens.length).toBe(1)
  })

  test('rooms entered together open one SSE stream; one entered later joins by PUT', async () => {
    const client = world.client('ana', { transport: 'sse' })
    const a = client.enter('a', { data: { in: 'a' } })
    client.enter('b/ü', { data: { in: 'b' } })
    await world.pass()
    expect(world.http.opens.length).toBe(1)
    expect(world.http.opens[0]?.url.searchParams.getAll('room')).toEqual(['a', 'b/ü'])
    expect(world.server.roster('b/ü')[0]?.data).toEqual({ in: 'b' })
    const c = client.enter('c', { data: { in: 'c' } })
    await world.pass()
    expect(users(c)).toEqual(['ana'])
    expect(world.http.opens.length).toBe(1)
    a.set({ more: null })
    await world.pass()
    expect(world.server.roster('a')[0]?.data).toEqual({ in: 'a', more: null })
    c.leave()
    await world.pass()
    expect(world.users('c')).toEqual([])
    client.close()
    await world.pass()
    expect(world.users('a')).toEqual([])
    expect(world.server.said.at(-1)).toMatchObject({ type: 'release' })
  })

  test('an observer sees and is not seen, on both transports', async () => {
    for (const transport of ['websocket', 'sse'] as const) {
      const member = world.client('ana').enter(transport)
      const observer = world.client('obs', { transport }).enter(transport, { observe: true })
      await world.pass()
      expect(users(observer)).toEqual(['ana'])
      expect(observer.self.get()).toBe(null)
      expect(member.count.get()).toBe(1)
      expect(() => observer.set({ a: 1 })).toThrow('observer')
    }
  })

  describe('what is left over SSE', () => {
    let calls: string[]
    beforeEach(() => {
      calls = []
      const { fetch } = world.http
      world.http.fetch = (address, request) => {
        if (request.method !== 'GET')
          calls.push(`${request.method} ${address.replace(/.*connections.c\d+/, '')}`)
        return fetch(address, request)
      }
    })

    test('is said once, by the end of the stream if that follows', async () => {
      const client = world.client('ana', { transport: 'sse' })
      const rooms = ['a', 'b', 'c'].map((room) => client.enter(room))
      await world.pass(100)
      rooms[0]?.leave()
      await world.pass()
      expect(calls).toEqual(['DELETE '])
      expect([world.users('a'), world.users('b')]).toEqual([[], ['ana']])
      client.close()
      await world.pass()
      expect(calls.slice(1)).toEqual(['POST /release'])
      expect([world.users('b'), world.users('c')]).toEqual([[], []])
    })

    test('is said before it is entered anew', async () => {
      const client = world.client('ana', { transport: 'sse' })
      const online = client.online(['bob'])
      const room = client.enter('a', { data: { old: 1 } })
      await world.pass(100)
      calls = []
      room.leave()
      client.enter('a', { data: { fresh: 1 } })
      await world.pass(100)
      expect(calls).toEqual(['DELETE ', 'PUT '])
      expect(world.server.roster('a')[0]?.data).toEqual({ fresh: 1 })
      online.close()
    })

    test('is said also where a new stream follows', async () => {
      const client = world.client('ana', { transport: 'sse' })
      const room = client.enter('a')
      client.enter('b')
      await world.pass(100)
      room.leave()
      client.enter('c', { observe: true })
      await world.pass(100)
      expect(calls[0]).toBe('DELETE ')
      expect([world.users('a'), world.users('b')]).toEqual([[], ['ana']])
    })

    test('is said again with a beat, as what was set is in a while, where a call did not get through', async () => {
      const client = world.client('ana', { transport: 'sse' })
      const [left, stays] = [client.enter('a'), client.enter('b')]
      await world.pass(100)
      world.http.down = true
      left.leave()
      stays.set({ x: 1 })
      stays.setStatus('idle')
      await world.pass(1_000)
      world.http.down = false
      expect([world.users('a'), client.connection.get()]).toEqual([['ana'], 'connected'])
      await world.pass(9_000)
      expect(world.users('a')).toEqual([])
      expect(stays.self.get()).toMatchObject({ data: { x: 1 }, status: 'idle' })
      expect(world.http.streams).toHaveLength(1)
    })
  })

  test.each([false, true])(
    'what is left on a dying WebSocket is left on the next; again to observe: %s',
    async (again) => {
      const client = world.client('ana')
      const room = client.enter('a')
      client.enter('b')
      await world.pass(100)
      world.socket.cut = true
      room.leave()
      if (again) client.enter('a', { observe: true })
      await world.pass(20_000)
      expect(world.sockets).toHaveLength(2)
      expect([world.users('a'), world.users('b')]).toEqual([[], ['ana']])
    },
  )

  test('keys that were removed while a stream was opened anew do not live on beside an observed room', async () => {
    const client = world.client('ana', { transport: 'sse' })
    const room = client.enter('a', { data: { old: 1 } })
    client.enter('b', { observe: true })
    await world.pass(100)
    world.http.newest.end(0, null)
    room.set({ fresh: 1 }, { replace: true })
    await world.pass(100)
    room.set({ more: 1 })
    await world.pass(1_000)
    expect(room.self.get()?.data).toEqual({ fresh: 1, more: 1 })
  })
})

describe('A14: proof of life without timers', () => {
  test.each(['websocket', 'sse'] as const)(
    'every timer of the client stalled, ten leases, %s',
    async (transport) => {
      const watcher = world.client('watcher').enter('r')
      const events = eventsOf(watcher)
      await world.pass()
      const page = new FakePage()
      world.client('ana', { transport }, page).enter('r')
      await world.pass(100)
      world.stalled = true
      page.setHidden(true)
      await world.pass(300_000)
      expect(events).toEqual(['join ana'])
      expect(watcher.others.get()[0]?.status).toBe('away')
      page.setHidden(false)
      await world.pass(200)
      expect(watcher.others.get()[0]?.status).toBe('active')
    },
  )

  test('a hidden page comes back without waiting for a timer', async () => {
    const page = new FakePage()
    const client = world.client('ana', {}, page)
    client.enter('r')
    await world.pass(100)
    page.setHidden(true)
    world.stalled = true
    world.socket.end(1006, null)
    await world.pass()
    expect(client.connection.get()).toBe('connected')
  })
})

describe('waking up', () => {
  test('a dead socket is found out by a probe, a living one is kept', async () => {
    const page = new FakePage()
    const client = world.client('ana', {}, page)
    client.enter('r')
    await world.pass(5_000)
    page.wake('online')
    await world.pass(5_000)
    expect(world.sockets.length).toBe(1)
    world.socket.cut = true
    page.wake('online')
    await world.pass(3_000 + 300)
    expect(world.sockets.length).toBe(2)
    expect(client.connection.get()).toBe('connected')
  })

  test('an SSE stream is opened anew when the network changed', async () => {
    const page = new FakePage()
    const client = world.client('ana', { transport: 'sse' }, page)
    client.enter('r')
    await world.pass(5_000)
    page.wake('online')
    await world.pass(300)
    expect(world.http.opens.length).toBe(2)
    expect(world.users('r')).toEqual(['ana'])
  })

  test('waiting for the next try ends when the network is back', async () => {
    const page = new FakePage()
    const client = world.client('ana', { transport: 'websocket' }, page)
    client.enter('r')
    world.refuse = Array(6).fill(1006)
    world.random = 0.999
    await world.pass(20_000)
    expect(client.connection.get()).toBe('connecting')
    world.refuse = []
    page.wake('online')
    await world.pass()
    expect(client.connection.get()).toBe('connected')
  })

  test('an attempt that hangs is made anew when the network is back', async () => {
    const page = new FakePage()
    const client = world.client('ana', {}, page)
    world.hang = true
    client.enter('r')
    await world.pass(1_000)
    world.hang = false
    page.wake('online')
    await world.pass()
    expect(client.connection.get()).toBe('connected')
  })

  test('a late watchdog asks before it judges', async () => {
    const { Watchdog } = await import('../src/core/watchdog.ts')
    let now = 0
    let fire = () => {}
    let probes = 0
    let dead = 0
    const environment = {
      ...world.environment(),
      now: () => now,
      setTimer: (fn: () => void) => {
        fire = fn
        return 1
      },
      clearTimer: () => {},
    }
    const watchdog = new Watchdog(environment, {
      probe: () => {
        probes++
        return true
      },
      dead: () => dead++,
    })
    watchdog.watch(9_000)
    now = 600_000
    fire()
    expect([probes, dead]).toEqual([1, 0])
    watchdog.heard()
    now += 3_000
    fire()
    expect([probes, dead]).toEqual([1, 0])
  })
})

describe('A41: back-forward cache', () => {
  test.each(['websocket', 'sse'] as const)(
    'hides with a closing beacon and comes back true, %s',
    async (transport) => {
      const watcher = world.client('watcher').enter('r')
      const events = eventsOf(watcher)
      await world.pass()
      const page = new FakePage()
      const client = world.client('ana', { transport }, page)
      const room = client.enter('r', { data: { x: 1 } })
      await world.pass(100)
      page.hide()
      expect(world.beacons.length).toBe(1)
      expect(world.beacons[0]?.url).toMatch(/^http:..fake.test.v1.connections.c\d+.release$/)
      expect(JSON.parse(world.beacons[0]?.text ?? '')).toEqual({ resume: expect.any(String), closing: true })
      await world.pass(5_000)
      expect(events).toEqual(['join ana', 'leave ana closed'])
      expect(users(room)).toEqual(['ana', 'watcher'])
      expect(room.health.get().stale).toBe(true)
      world.client('bob').enter('r')
      await world.pass(100)
      page.wake('restored')
      await world.pass(300)
      expect(users(room)).toEqual(['ana', 'bob', 'watcher'])
      expect(room.health.get().stale).toBe(false)
      expect(world.server.roster('r').find(({ user }) => user === 'ana')).toMatchObject({
        connections: 1,
        data: { x: 1 },
      })
      expect(events.slice(2)).toEqual(['join bob', 'join ana'])
    },
  )
})
