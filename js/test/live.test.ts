import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type Client, type ClientOptions, createClient } from '../src/core/client.ts'
import { preload } from '../src/core/parts.ts'
import type { Room } from '../src/core/room.ts'
import { leaseMs, nodeEnvironment, url } from './server.ts'

/* The client against a real server with guests. */

const both = ['websocket', 'sse'] as const

/** How to end the newest stream of a client as a broken cable does. */
const cuts = new Map<Client, () => void>()

// The runner takes its time with code that is fetched later, and the server does not wait for it.
beforeAll(() => preload('sse', 'signals', 'upkeep', 'windows'))

afterEach(() => {
  for (const client of cuts.keys()) client.close()
  cuts.clear()
})

function newClient(user: string, options: ClientOptions = {}): Client {
  const client: Client = createClient(
    { url, guest: { user, name: user.toUpperCase() }, ...options },
    nodeEnvironment((cut) => cuts.set(client, cut)),
  )
  cuts.set(client, () => {})
  return client
}

/** Cuts the stream, and resolves in the moment in which the client has noticed. */
function cut(client: Client): Promise<void> {
  return new Promise((resolve) => {
    const stop = client.connection.subscribe((state) => {
      if (state !== 'reconnecting') return
      stop()
      resolve()
    })
    cuts.get(client)?.()
  })
}

let serial = 0
const newRoom = () => `live/${process.pid}:${++serial}`
const users = (room: Room) => room.members.get().map(({ user }) => user)
const eventually = (fn: () => unknown, ms = 4_000) => expect.poll(fn, { timeout: ms, interval: 20 })

describe('a real server', { timeout: 30_000 }, () => {
  test.each(both)('enter, see, set, status, leave: %s', async (transport) => {
    const id = newRoom()
    const watcher = newClient('watcher').enter(id)
    await eventually(() => users(watcher)).toEqual(['watcher'])
    const events: string[] = []
    watcher.on('join', ({ member }) => events.push(`join ${member.user}`))
    watcher.on('leave', ({ member, reason }) => events.push(`leave ${member.user} ${reason}`))
    const room = newClient('ana', { transport }).enter(id, { data: { a: 1, b: 2 }, status: 'idle' })
    await eventually(() => watcher.others.get()).toMatchObject([
      { user: 'ana', status: 'idle', data: { a: 1, b: 2 }, connections: 1 },
    ])
    expect(users(room)).toEqual(['ana', 'watcher'])
    expect(room.health.get()).toMatchObject({ stale: false, error: null })
    room.set({ b: null })
    await eventually(() => watcher.others.get()[0]?.data).toEqual({ a: 1, b: null })
    room.set({ c: 3 }, { replace: true })
    await eventually(() => watcher.others.get()[0]?.data).toEqual({ c: 3 })
    room.setStatus('away')
    await eventually(() => watcher.others.get()[0]?.status).toBe('away')
    room.leave()
    await eventually(() => users(watcher)).toEqual(['watcher'])
    expect(events).toEqual(['join ana', 'leave ana left'])
  })

  test.each(both)('a lost stream comes back as the same connection, unseen: %s', async (transport) => {
    const id = newRoom()
    const watcher = newClient('watcher').enter(id)
    await eventually(() => users(watcher)).toEqual(['watcher'])
    const client = newClient('ana', { transport })
    const room = client.enter(id, { data: { a: 1, gone: 1 } })
    await eventually(() => users(watcher)).toEqual(['ana', 'watcher'])
    const events: string[] = []
    watcher.on('join', ({ member }) => events.push(`join ${member.user}`))
    watcher.on('leave', ({ member }) => events.push(`leave ${member.user}`))
    await cut(client)
    room.set({ a: 2 }, { replace: true })
    await eventually(() => room.health.get().stale).toBe(false)
    await eventually(() => watcher.others.get()[0]).toMatchObject({ connections: 1, data: { a: 2 } })
    expect(Object.keys(watcher.others.get()[0]?.data ?? {})).toEqual(['a'])
    await sleep(1_500)
    expect(events).toEqual([])
    expect(users(room)).toEqual(['ana', 'watcher'])
  })

  test.each(both)('a room left while the stream is lost is left when it is back: %s', async (transport) => {
    const [id, other] = [newRoom(), newRoom()]
    const watcher = newClient('watcher').enter(id)
    const client = newClient('ana', { transport })
    const [room, stays] = [client.enter(id), client.enter(other)]
    await eventually(() => users(watcher)).toEqual(['ana', 'watcher'])
    await cut(client)
    room.leave()
    await eventually(() => stays.health.get().stale).toBe(false)
    await eventually(() => users(watcher)).toEqual(['watcher'])
    expect(users(stays)).toEqual(['ana'])
  })

  test.each(both)('several rooms, one entered later, one left: %s', async (transport) => {
    const [a, b, c] = [newRoom(), newRoom(), newRoom()]
    const client = newClient('ana', { transport })
    const [roomA, roomB] = [client.enter(a, { data: { in: 'a' } }), client.enter(b, { data: { in: 'b' } })]
    await eventually(() => [roomA.self.get()?.data, roomB.self.get()?.data]).toEqual([
      { in: 'a' },
      { in: 'b' },
    ])
    const roomC = client.enter(c, { data: { in: 'c' } })
    await eventually(() => roomC.self.get()?.data).toEqual({ in: 'c' })
    const watcher = newClient('watcher').enter(b)
    await eventually(() => users(watcher)).toEqual(['ana', 'watcher'])
    await eventually(() => users(roomB)).toEqual(['ana', 'watcher'])
    roomB.leave()
    await eventually(() => users(watcher)).toEqual(['watcher'])
    expect(users(roomA)).toEqual(['ana'])
    expect(client.connection.get()).toBe('connected')
  })

  test.each(both)('an observer sees, is not seen, and may become a member: %s', async (transport) => {
    const id = newRoom()
    const watcher = newClient('watcher').enter(id)
    await eventually(() => users(watcher)).toEqual(['watcher'])
    const client = newClient('obs', { transport })
    const room = client.enter(id, { observe: true })
    await eventually(() => users(room)).toEqual(['watcher'])
    expect(users(watcher)).toEqual(['watcher'])
    client.enter(id, { data: { here: true } })
    await eventually(() => watcher.others.get()[0]?.data).toEqual({ here: true })
    await eventually(() => room.self.get()?.user).toBe('obs')
  })

  test.each(both)(
    'signals: seen by others, ended, told to newcomers, said again, gone with the leave: %s',
    async (transport) => {
      const id = newRoom()
      const watcher = newClient('watcher').enter(id)
      const client = newClient('ana', { transport })
      const room = client.enter(id)
      await eventually(() => users(watcher)).toEqual(['ana', 'watcher'])
      const seen = (by: Room, kind: string) => [...by.signals(kind).get().values()]
      for (let i = 0; i < 30; i++) room.signal('cursor', { x: i }, { docVersion: i, ttlMs: 20_000 })
      room.signal('selection', [1, 2])
      await eventually(() => seen(watcher, 'cursor')).toMatchObject([
        { user: 'ana', kind: 'cursor', data: { x: 29 }, docVersion: 29 },
      ])
      await eventually(() => seen(watcher, 'selection').map(({ data }) => data)).toEqual([[1, 2]])
      expect(seen(room, 'cursor')).toEqual([])
      const late = newClient('late').enter(id)
      await eventually(() => seen(late, 'cursor').map(({ data }) => data)).toEqual([{ x: 29 }])
      room.typing()
      await eventually(() => seen(watcher, 'typing').map(({ user }) => user)).toEqual(['ana'])
      room.typing(false)
      await eventually(() => seen(watcher, 'typing'), 1_500).toEqual([])
      room.signal('selection', null)
      await eventually(() => seen(watcher, 'selection')).toEqual([])
      await cut(client)
      await eventually(() => room.health.get().stale).toBe(false)
      await eventually(() => seen(watcher, 'cursor').map(({ data }) => data)).toEqual([{ x: 29 }])
      room.leave()
      await eventually(() => seen(watcher, 'cursor')).toEqual([])
      expect(users(watcher)).toEqual(['late', 'watcher'])
    },
  )

  test.each(both)(
    'pages: newest first, grown, moved, kept current, asked for again: %s',
    async (transport) => {
      const id = newRoom()
      const rooms: Room[] = []
      for (const user of ['a', 'b', 'c', 'd', 'e']) {
        const room = newClient(user).enter(id)
        rooms.push(room)
        await eventually(() => room.self.get()?.user).toBe(user)
      }
      const client = newClient('ana', { transport })
      const watcher = client.enter(id, { observe: true })
      const page = watcher.page({ limit: 2 })
      const shown = () =>
        page
          .get()
          .members.map(({ user }) => user)
          .join('')
      await eventually(shown).toBe('ed')
      expect(page.get()).toMatchObject({ count: 5, loading: false, error: null })
      page.more()
      await eventually(shown).toBe('edcb')
      rooms[3]?.set({ mood: 'fine' })
      await eventually(() => page.get().members.find(({ user }) => user === 'd')?.data).toEqual({
        mood: 'fine',
      })
      rooms[4]?.leave()
      await eventually(() => page.get().count).toBe(4)
      await eventually(shown).toMatch(/^dcb/)
      await cut(client)
      newClient('zed').enter(id)
      await eventually(() => client.connection.get(), 8_000).toBe('connected')
      await eventually(shown).toMatch(/^zeddc/)
      page.close()
      const bad = watcher.page({ cursor: 'not ours' })
      await eventually(() => bad.get().error?.code).toBe('bad_request')
    },
  )

  test.each(both)('contacts and who is online: only those asked for, by push: %s', async (transport) => {
    const id = newRoom()
    const [ben, cleo] = [`ben${serial}${transport}`, `cleo${serial}${transport}`]
    const client = newClient('ana', { transport })
    const room = client.enter(id)
    const contacts = room.contacts([ben, cleo])
    const online = client.online([ben, 'nobody'])
    const others = newClient(ben).enter(id)
    newClient('dan').enter(id)
    await eventually(() => contacts.get().map(({ user }) => user)).toEqual([ben])
    await eventually(() => [...online.get()]).toEqual([[ben, 'active']])
    others.setStatus('away')
    await eventually(() => contacts.get()[0]?.status).toBe('away')
    await eventually(() => online.get().get(ben)).toBe('away')
    others.leave()
    await eventually(() => contacts.get()).toEqual([])
    await eventually(() => online.get().size).toBe(0)
  })

  test('who is online needs no room', async () => {
    const ben = `ben${process.pid}`
    const online = newClient('ana').online([ben])
    newClient(ben).enter(newRoom())
    await eventually(() => [...online.get().keys()]).toEqual([ben])
  })

  test('beats over SSE keep the member for longer than a lease would', async () => {
    const id = newRoom()
    const room = newClient('ana', { transport: 'sse' }).enter(id)
    await eventually(() => users(room)).toEqual(['ana'])
    const states: string[] = []
    room.connection.subscribe((state) => states.push(state))
    await sleep(leaseMs * 2)
    expect(states).toEqual(['connected'])
    expect(users(room)).toEqual(['ana'])
  })
})
