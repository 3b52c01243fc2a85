import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Lazy } from '../src/core/lazy.ts'
import { type Part, parts } from '../src/core/parts.ts'
import { FakePage, World } from './fake/world.ts'

/* Code that is fetched when it is first needed: nothing that happens before it is here is lost. */

describe('lazy', () => {
  test('runs what waited, in order, then at once', async () => {
    const { lazy, arrive } = deferred<number>()
    const ran: string[] = []
    lazy.use(
      (n) => ran.push(`first ${n}`),
      () => {},
    )
    lazy.use(
      (n) => ran.push(`second ${n}`),
      () => {},
    )
    expect(ran).toEqual([])
    arrive(7)
    await lazy.load()
    lazy.use(
      (n) => ran.push(`third ${n}`),
      () => {},
    )
    expect(ran).toEqual(['first 7', 'second 7', 'third 7'])
  })

  test('a failure is told to all who waited, and the next one tries again', async () => {
    let tries = 0
    const lazy = new Lazy(() =>
      ++tries === 1 ? Promise.reject(new Error('offline')) : Promise.resolve('here'),
    )
    const failures: unknown[] = []
    lazy.use(
      () => expect.unreachable(),
      (error) => failures.push(error),
    )
    await expect(lazy.load()).rejects.toThrow('offline')
    expect(failures).toHaveLength(1)
    await expect(lazy.load()).resolves.toBe('here')
    expect([lazy.value, tries]).toEqual(['here', 2])
  })
})

test('what another asks for in the moment in which it comes waits for those before', async () => {
  const { lazy, arrive } = deferred<number>()
  const ran: number[] = []
  const use = (i: number) =>
    lazy.use(
      () => ran.push(i),
      () => {},
    )
  use(1)
  use(2)
  arrive(7)
  for (let i = 3; i < 12; i++) {
    use(i)
    await Promise.resolve()
  }
  expect(ran).toEqual([...ran].sort((a, b) => a - b))
})

describe('a client', () => {
  const real = { ...parts }
  let world: World
  beforeEach(() => {
    world = new World()
  })
  afterEach(() => {
    Object.assign(parts, real)
    expect(world.errors).toEqual([])
    world.end()
  })

  /** Takes a part away until `arrive` is called. */
  function without<P extends Part>(name: P) {
    const { lazy, arrive, fail } = deferred<unknown>()
    Object.assign(parts, { [name]: lazy })
    return { arrive: () => arrive(real[name].value), fail }
  }

  test('shows signals that came, and says those that were set, before their code was here', async () => {
    const bob = world.client('bob').enter('r')
    await world.pass()
    bob.signal('cursor', { x: 1 })
    bob.signal('selection', [1])
    await world.pass()
    const { arrive } = without('signals')
    const room = world.client('ana').enter('r')
    await world.pass()
    const cursors = room.signals('cursor')
    const seen: number[] = []
    cursors.subscribe((signals) => seen.push(signals.size))
    room.signal('cursor', { x: 9 })
    room.typing()
    expect(() => room.signal('cursor', { x: Number.NaN })).toThrow('NaN')
    bob.signal('cursor', { x: 2 })
    await world.pass(60)
    expect(seen).toEqual([0])
    arrive()
    await world.pass(60)
    expect([...cursors.get().values()].map(({ data }) => data)).toEqual([{ x: 2 }])
    expect([...room.signals('selection').get().values()].map(({ data }) => data)).toEqual([[1]])
    expect(seen).toEqual([0, 1, 1])
    const kinds = [...world.server.room('r').signals.values()].filter(({ user }) => user === 'ana')
    expect(kinds.map(({ kind, data }) => [kind, data])).toEqual([
      ['cursor', { x: 9 }],
      ['typing', true],
    ])
  })

  test('opens windows that were asked for before, and none that were closed again', async () => {
    const { arrive } = without('windows')
    world.client('ben').enter('r')
    const client = world.client('ana')
    const room = client.enter('r')
    const [page, closed] = [room.page(), room.page()]
    const [contacts, online] = [room.contacts(['ben']), client.online(['ben'])]
    closed.close()
    await world.pass()
    expect([page.get().loading, contacts.get()]).toEqual([true, []])
    arrive()
    await world.pass()
    expect(page.get().members.map(({ user }) => user)).toEqual(['ana', 'ben'])
    expect(contacts.get().map(({ user }) => user)).toEqual(['ben'])
    expect([...online.get().keys()]).toEqual(['ben'])
    expect(closed.get().loading).toBe(true)
    expect(world.server.said.filter(({ type }) => type === 'page')).toHaveLength(1)
  })

  test('says so where code cannot be fetched', async () => {
    const { fail } = without('windows')
    const room = world.client('ana').enter('r')
    const errors: string[] = []
    room.on('error', ({ error }) => errors.push(`${error.code} ${error.retry}`))
    room.contacts(['ben'])
    fail(new Error('offline'))
    await world.pass()
    expect(errors).toEqual(['unreachable true'])
  })

  test('waits for the code of streams, and goes back to sockets where it never comes', async () => {
    const first = without('sse')
    world.refuse = [1006, 1006]
    const client = world.client('ana')
    client.enter('r')
    await world.pass(2_000)
    expect([client.connection.get(), world.http.streams.length]).toEqual(['connecting', 0])
    first.arrive()
    await world.pass()
    expect([client.connection.get(), world.http.streams.length]).toEqual(['connected', 1])
    client.close()
    const second = without('sse')
    world.refuse = [1006, 1006]
    const other = world.client('ben')
    other.enter('r')
    await world.pass(2_000)
    second.fail(new Error('offline'))
    await world.pass(10_000)
    expect([other.connection.get(), world.http.streams.length]).toEqual(['connected', 1])
  })

  describe('without its upkeep', () => {
    test('shows the room, and keeps the connection from when the code is here', async () => {
      const { arrive } = without('upkeep')
      const page = new FakePage()
      const client = world.client('ana', {}, page)
      const room = client.enter('r')
      await world.pass()
      expect([client.connection.get(), room.members.get().length]).toEqual(['connected', 1])
      page.setHidden(true)
      await world.pass(1_000)
      expect([room.self.get()?.status, page.listeners]).toEqual(['active', 0])
      arrive()
      await world.pass(1_000)
      expect(room.self.get()?.status).toBe('away')
      world.socket.cut = true
      await world.pass(16_000)
      expect(world.sockets).toHaveLength(2)
      client.close()
      expect(page.listeners).toBe(0)
    })

    test('what was set meanwhile is told, and what was missed is mended, when the code is here', async () => {
      const { arrive } = without('upkeep')
      const room = world.client('ana').enter('r', { data: { page: 1 } })
      await world.pass()
      for (let page = 2; page <= 50; page++) room.set({ page })
      world.socket.send([{ type: 'diff', room: 'r', prev: 50, version: 51, count: 9 }])
      await world.pass(1_000)
      expect([room.data.get(), room.self.get()?.data]).toEqual([{ page: 50 }, { page: 1 }])
      expect(world.server.said.map(({ type }) => type)).toEqual(['join'])
      arrive()
      await world.pass(200)
      expect([room.self.get()?.data, room.health.get().stale]).toEqual([{ page: 50 }, false])
      expect(world.server.said.map(({ type }) => type).sort()).toEqual(['join', 'set', 'snapshot'])
    })

    test.each(['websocket', 'sse'] as const)(
      'a room that was left or lost meanwhile is never asked for: %s',
      async (transport) => {
        const { arrive } = without('upkeep')
        const client = world.client('ana', { transport })
        const left = client.enter('r')
        for (const room of ['s', 't']) client.enter(room)
        await world.pass()
        const [connection] = world.server.connections.values()
        if (connection) world.server.leave(connection, 's', 'kicked')
        connection?.port?.send([
          { type: 'diff', room: 'r', prev: 50, version: 51, count: 9 },
          { type: 'ended', room: 's', reason: 'kicked' },
        ])
        await world.pass()
        left.leave()
        await world.pass()
        const before = world.server.said.length
        arrive()
        await world.pass(8_000)
        expect(world.server.said.slice(before)).toEqual([])
        expect(world.opens.length + world.http.opens.length).toBe(1)
      },
    )

    test('what was set, and what was missed, outlives a failure to fetch it', async () => {
      let asked = 0
      const fetch = () =>
        ++asked < 3 ? Promise.reject(new Error('offline')) : Promise.resolve(real.upkeep.value)
      Object.assign(parts, { upkeep: new Lazy<unknown>(fetch) })
      const room = world.client('ana').enter('r')
      await world.pass()
      room.set({ page: 2 })
      room.setStatus('away')
      world.socket.send([{ type: 'diff', room: 'r', prev: 50, version: 51, count: 9 }])
      await world.pass(100)
      expect([asked, room.health.get().stale]).toEqual([2, true])
      // Whoever comes makes the client ask for the code, and no room.
      world.client('ben').enter('s')
      world.socket.send([{ type: 'diff', room: 'r', prev: 51, version: 52, count: 9 }])
      await world.pass(15_000)
      expect(room.self.get()).toMatchObject({ data: { page: 2 }, status: 'away' })
      expect(room.health.get().stale).toBe(false)
    })

    test('code that does not come is asked for at each beat, and not at each change', async () => {
      let asked = 0
      Object.assign(parts, { upkeep: new Lazy(() => Promise.reject(new Error(`no ${++asked}`))) })
      const room = world.client('ana').enter('r')
      await world.pass()
      for (let page = 0; page < 500; page++) {
        room.set({ page })
        await world.pass(16)
      }
      expect(asked).toBeLessThan(10)
    })

    test('a stream that died while it could not be fetched is found out', async () => {
      let asked = 0
      const fetch = () =>
        ++asked < 4 ? Promise.reject(new Error('offline')) : Promise.resolve(real.upkeep.value)
      Object.assign(parts, { upkeep: new Lazy<unknown>(fetch) })
      const client = world.client('ana')
      client.enter('r')
      await world.pass()
      world.socket.cut = true
      await world.pass(25_000)
      expect([client.connection.get(), world.sockets.length]).toEqual(['connected', 2])
    })

    test('comes back by itself', async () => {
      const { fail } = without('upkeep')
      world.refuse = [1006, 1006]
      const client = world.client('ana')
      const room = client.enter('r')
      await world.pass()
      fail(new Error('offline'))
      await world.pass(4_000)
      expect([client.connection.get(), world.opens.length]).toEqual(['connecting', 2])
      await world.pass(4_000)
      expect([client.connection.get(), room.count.get()]).toEqual(['connected', 1])
    })

    test('what ended the first attempt is judged when the code is here', async () => {
      const { arrive } = without('upkeep')
      world.refuse = [4403]
      const client = world.client('ana')
      const room = client.enter('r')
      const errors: string[] = []
      room.on('error', ({ error }) => errors.push(error.code))
      await world.pass(500)
      expect([client.connection.get(), client.error]).toEqual(['connecting', null])
      arrive()
      await world.pass(10_000)
      expect([client.connection.get(), errors, world.opens.length]).toEqual([
        'disconnected',
        ['forbidden'],
        1,
      ])
    })

    test('of several failures that waited for it only the last one counts', async () => {
      const { arrive } = without('upkeep')
      world.refuse = Array.from({ length: 8 }, () => 1006)
      world.client('ana').enter('r')
      await world.pass(10_000)
      expect(world.opens).toHaveLength(4)
      arrive()
      await world.pass(200)
      expect(world.opens).toHaveLength(5)
    })

    test('code that arrives after the client was closed does nothing', async () => {
      const { arrive } = without('upkeep')
      const page = new FakePage()
      const client = world.client('ana', {}, page)
      client.enter('r')
      await world.pass()
      client.close()
      arrive()
      await world.pass(60_000)
      expect([page.listeners, world.opens.length, client.connection.get()]).toEqual([0, 1, 'disconnected'])
    })
  })
})

function deferred<T>() {
  let arrive = (_: T) => {}
  let fail = (_: unknown) => {}
  const promise = new Promise<T>((resolve, reject) => {
    arrive = resolve
    fail = reject
  })
  return { lazy: new Lazy(() => promise), arrive: (value: T) => arrive(value), fail: (e: unknown) => fail(e) }
}
