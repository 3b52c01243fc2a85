import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { FakePage, World } from './fake/world.ts'

/* What an application does from inside its own callbacks is done, as if it had been done a moment later. */

const both = ['websocket', 'sse'] as const

let world: World
beforeEach(() => {
  world = new World()
})
afterEach(() => {
  expect(world.errors).toEqual([])
  world.end()
})

const opens = () => world.opens.length + world.http.opens.length

describe.each(both)('over %s', (transport) => {
  test.each([1, 2])('a client closed while it connects, for the time %i, stays closed', async (times) => {
    const page = new FakePage()
    const client = world.client('ana', { transport }, page)
    for (let i = 1; i < times; i++) {
      const room = client.enter('r')
      await world.pass(100)
      room.leave()
      await world.pass(100)
    }
    client.connection.subscribe((state) => {
      if (state === 'connecting') client.close()
    })
    client.enter('r')
    await world.pass(5_000)
    expect([client.connection.get(), opens(), page.listeners]).toEqual(['disconnected', times - 1, 0])
  })

  test.each([false, true])(
    'a client closed when its stream is lost stays closed, hidden: %s',
    async (hidden) => {
      const page = new FakePage()
      const client = world.client('ana', { transport }, page)
      client.enter('r')
      await world.pass(100)
      page.setHidden(hidden)
      client.connection.subscribe((state) => {
        if (state === 'reconnecting') client.close()
      })
      for (const { port } of world.server.connections.values()) port?.end(1006, null)
      await world.pass(30_000)
      expect([client.connection.get(), opens(), page.listeners]).toEqual(['disconnected', 1, 0])
    },
  )

  test('a room left when its stream is lost is not entered again', async () => {
    const client = world.client('ana', { transport })
    const [room, other] = [client.enter('r'), client.enter('s')]
    await world.pass(100)
    room.health.subscribe(({ stale }) => stale && room.leave())
    for (const { port } of world.server.connections.values()) port?.end(1006, null)
    await world.pass(30_000)
    expect([other.count.get(), opens()]).toEqual([1, 2])
    expect(world.users('r')).toEqual([])
  })

  test('a room entered anew while it is left is entered', async () => {
    const client = world.client('ana', { transport })
    const room = client.enter('r')
    client.enter('s')
    await world.pass(100)
    const stop = room.count.subscribe((count) => {
      if (count > 0) return
      stop()
      client.enter('r')
    })
    room.leave()
    await world.pass(500)
    expect(world.users('r')).toEqual(['ana'])
  })

  test('what is said from a listener is said', async () => {
    const client = world.client('ana', { transport })
    const room = client.enter('r')
    await world.pass(100)
    room.on('join', ({ member }) => {
      room.set({ met: member.user })
      if (member.user === 'cleo') room.leave()
    })
    world.client('ben').enter('r')
    await world.pass(500)
    expect(room.self.get()?.data).toEqual({ met: 'ben' })
    world.client('cleo').enter('r')
    await world.pass(500)
    expect([world.users('r'), client.connection.get()]).toEqual([['ben', 'cleo'], 'initial'])
  })

  test('a room may be entered anew from `ended`', async () => {
    const client = world.client('ana', { transport })
    const room = client.enter('r')
    client.enter('s')
    await world.pass(100)
    room.on('ended', () => {
      room.leave()
      client.enter('r', { data: { again: true } })
    })
    const [connection] = world.server.connections.values()
    if (connection) world.server.leave(connection, 'r', 'kicked')
    connection?.port?.send([{ type: 'ended', room: 'r', reason: 'kicked' }])
    await world.pass(500)
    expect(world.server.roster('r')).toMatchObject([{ user: 'ana', data: { again: true } }])
  })
})

test('whoever wraps `leave` leaves all the same, and the connection closes', async () => {
  const client = world.client('ana')
  const room = client.enter('r')
  await world.pass()
  const { leave } = room
  room.leave = () => leave()
  room.leave()
  expect(client.connection.get()).toBe('initial')
})

test('a source of tokens that closes the client opens nothing', async () => {
  const page = new FakePage()
  let asked = 0
  const auth = () => {
    if (++asked > 1) client.close()
    return null
  }
  const client = world.client('ana', { auth }, page)
  client.enter('r')
  await world.pass(100)
  world.socket.end(1006, null)
  await world.pass(30_000)
  expect([client.connection.get(), opens(), page.listeners]).toEqual(['disconnected', 1, 0])
})
