import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Member } from '../src/core/member.ts'
import type { Page } from '../src/core/window.ts'
import { World } from './fake/world.ts'

/* Pages, contacts, who is online: what is shown beside the roster, over both transports. */

const both = ['websocket', 'sse'] as const

let world: World
beforeEach(() => {
  world = new World({ countsAbove: 5, countsBelow: 3 })
})
afterEach(() => {
  expect(world.errors).toEqual([])
  world.end()
})

const names = (list: readonly Member[]) => list.map(({ user }) => user).join(' ')
const shown = (page: Page) => names(page.get().members)
const said = (type: string) => world.server.said.filter((message) => message.type === type)
const send = (frame: object) => {
  for (const connection of world.server.connections.values()) {
    if (connection.user === 'ana') connection.port?.send([frame])
  }
}

async function crowd(room: string, n: number) {
  for (let i = 1; i <= n; i++) {
    world.client(`u${i}`).enter(room)
    await world.pass(10)
  }
}

describe.each(both)('a page over %s', (transport) => {
  test('shows the newest first, grows, moves on, and closes', async () => {
    await crowd('r', 8)
    const room = world.client('ana', { transport }).enter('r', { observe: true })
    const page = room.page({ limit: 3 })
    expect(page.get()).toMatchObject({ members: [], loading: true, error: null })
    await world.pass()
    expect(room.mode.get()).toBe('counts')
    expect(shown(page)).toBe('u8 u7 u6')
    expect(page.get()).toMatchObject({ count: 8, loading: false })
    page.more()
    expect(page.get()).toMatchObject({ loading: true })
    page.more()
    await world.pass()
    expect(shown(page)).toBe('u8 u7 u6 u5 u4 u3')
    expect(said('page')).toHaveLength(2)
    page.next()
    expect(shown(page)).toBe('u8 u7 u6 u5 u4 u3')
    await world.pass()
    expect(shown(page)).toBe('u2 u1')
    expect(page.get().nextCursor).toBeNull()
    page.next()
    page.more()
    await world.pass()
    expect(shown(page)).toBe('u2 u1')
    expect(said('closePage')).toHaveLength(1)
    page.close()
    page.close()
    await world.pass()
    expect(said('closePage')).toHaveLength(2)
    for (const { watching } of world.server.connections.values()) {
      expect(watching.pages.get('r')?.size ?? 0).toBe(0)
    }
  })

  test('is kept current, and whoever did not change is the same object', async () => {
    await crowd('r', 6)
    const page = world.client('ana', { transport }).enter('r', { observe: true }).page({ limit: 3 })
    await world.pass()
    const before = page.get().members
    const newcomer = world.client('zed').enter('r')
    await world.pass()
    expect(shown(page)).toBe('zed u6 u5')
    expect(page.get().members[1]).toBe(before[0])
    expect(page.get().count).toBe(7)
    newcomer.set({ mood: 'fine' })
    await world.pass(200)
    expect(page.get().members[0]?.data).toEqual({ mood: 'fine' })
    expect(page.get().members[1]).toBe(before[0])
    newcomer.leave()
    await world.pass()
    expect(shown(page)).toBe('u6 u5 u4')
    expect(page.get().members.slice(0, 2)).toEqual(before.slice(0, 2))
    expect(page.get().members[0]).toBe(before[0])
  })

  test('is asked for again on every new stream, and shows what it had meanwhile', async () => {
    await crowd('r', 6)
    const client = world.client('ana', { transport })
    const page = client.enter('r', { observe: true }).page({ limit: 2 })
    await world.pass()
    expect(shown(page)).toBe('u6 u5')
    const before = page.get().members
    if (transport === 'websocket') world.socket.end(1006, null)
    else world.http.newest.end(1006, null)
    await world.pass()
    expect(client.connection.get()).toBe('reconnecting')
    expect(page.get().members).toBe(before)
    await world.pass(1_000)
    expect(client.connection.get()).toBe('connected')
    expect(said('page')).toHaveLength(2)
    expect(page.get()).toMatchObject({ loading: false })
    expect(page.get().members).toBe(before)
    world.client('zed').enter('r')
    await world.pass()
    expect(shown(page)).toBe('zed u6')
  })

  test('what the server refuses is told, and what was shown stays', async () => {
    await crowd('r', 4)
    const room = world.client('ana', { transport }).enter('r', { observe: true })
    const bad = room.page({ cursor: 'not ours' })
    await world.pass()
    expect(bad.get()).toMatchObject({ loading: false, members: [], error: { code: 'bad_request' } })
    bad.close()
    const pages = [1, 2, 3, 4, 5].map((limit) => room.page({ limit }))
    await world.pass()
    expect(pages.map((page) => page.get().error?.code ?? 'fine')).toEqual([
      'fine',
      'fine',
      'fine',
      'fine',
      'rate_limited',
    ])
    pages[0]?.close()
    pages[4]?.close()
    const again = room.page()
    await world.pass()
    expect(shown(again)).toBe('u4 u3 u2 u1')
  })

  test('several pages stay one list, however many come and go', async () => {
    const users = (from: number, to: number) =>
      Array.from({ length: to - from + 1 }, (_, i) => `g${from + i}`)
    const leave = (users: readonly string[]) => {
      for (const connection of world.server.connections.values()) {
        if (users.includes(connection.user)) connection.leases.delete('r')
      }
      world.server.refresh('r', 'left')
    }
    world.server.fill('r', users(1, 450))
    const page = world.client('ana', { transport }).enter('r', { observe: true }).page({ limit: 200 })
    await world.pass()
    page.more()
    await world.pass()
    expect(page.get().members).toHaveLength(400)
    const newest = (n: number) => {
      const { order } = world.server.room('r')
      return [...order]
        .sort(([, a], [, b]) => b - a)
        .map(([user]) => user)
        .slice(0, n)
    }
    const check = () => {
      const users = page.get().members.map(({ user }) => user)
      expect(users).toEqual(newest(users.length))
      return users.length
    }
    await world.pass(1)
    world.server.fill('r', ['new1', 'new2'])
    await world.pass()
    expect(check()).toBe(400)
    leave([...users(440, 449), 'g100', 'g250'])
    await world.pass()
    expect(check()).toBe(400)
    leave(users(2, 200))
    await world.pass()
    expect(check()).toBe(world.server.room('r').members.size)
    expect(page.get()).toMatchObject({ nextCursor: null, loading: false, error: null })
  })

  test('leaving the room closes its windows', async () => {
    const client = world.client('ana', { transport })
    client.enter('other')
    const room = client.enter('r')
    await world.pass()
    const page = room.page()
    const contacts = room.contacts(['ben'])
    await world.pass()
    expect(shown(page)).toBe('ana')
    room.leave()
    await world.pass()
    world.client('ben').enter('r')
    await world.pass()
    expect([shown(page), contacts.get()]).toEqual(['ana', []])
    expect(() => room.page()).toThrow('has been left')
  })
})

test('windows opened at the first sight of a room ask once', async () => {
  await crowd('r', 8)
  const room = world.client('ana').enter('r')
  const stop = room.mode.subscribe((mode) => {
    if (mode === null) return
    Promise.resolve().then(() => stop())
    room.page()
    room.contacts(['u1'])
  })
  await world.pass(1_000)
  expect([said('page'), said('contacts')].map(({ length }) => length)).toEqual([1, 1])
})

describe('what a page is told', () => {
  const member = (user: string, since: number, data = {}) => ({
    user,
    info: {},
    status: 'active',
    connections: 1,
    since,
    data,
  })

  async function open() {
    await crowd('r', 2)
    const page = world.client('ana', { transport: 'websocket' }).enter('r', { observe: true }).page()
    await world.pass()
    expect(shown(page)).toBe('u2 u1')
    const id = said('page')[0]?.page
    const tell = (fields: object) => send({ type: 'page', room: 'r', page: id, ...fields })
    return { page, tell, since: page.get().members[0]?.since ?? 0 }
  }

  test('unknown, repeated and late words list a user once, and never invent one', async () => {
    const { page, tell, since } = await open()
    const before = page.get()
    tell({ update: [member('ghost', 1)], leave: ['nobody', { user: 'nobody' }], nextCursor: null, count: 2 })
    expect(page.get()).toBe(before)
    tell({ join: [member('zed', since + 5), member('zed', since + 5)], count: 3 })
    tell({ join: [member('zed', since + 5)], count: 3 })
    expect(shown(page)).toBe('zed u2 u1')
    tell({ join: [member('u1', since + 9)] })
    expect(shown(page)).toBe('u1 zed u2')
    tell({ leave: ['zed', 'zed'] })
    expect(shown(page)).toBe('u1 u2')
    tell({ members: [member('x', 3), member('x', 3), member('y', 2)], nextCursor: 'c', count: 9 })
    expect(shown(page)).toBe('x y')
    expect(page.get()).toMatchObject({ nextCursor: 'c', count: 9 })
  })

  test('hostile frames change nothing and throw nothing', async () => {
    const { page, tell } = await open()
    const before = page.get()
    for (const junk of [null, 1, 'x', {}, [null, 1, [], { user: 5 }, { user: '' }]]) {
      tell({ join: junk, update: junk, leave: junk, count: junk, nextCursor: 5 })
      send({ type: 'page', room: 'r', page: junk, join: [member('evil', 1)] })
      send({ type: 'page', room: junk, page: 'p1', join: [member('evil', 1)] })
      send({ type: 'contacts', room: 'r', present: junk, absent: junk })
      send({ type: 'users', present: junk, absent: junk })
    }
    tell({ members: { length: 3 } })
    expect(page.get().members).toBe(before.members)
    expect(shown(page)).toBe('u2 u1')
    tell({
      join: [member('__proto__', 1, { polluted: true }), member('constructor', 1)],
      leave: ['toString'],
    })
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
    expect(page.get().members).toHaveLength(4)
  })

  test('a change that overtakes the answer is not lost', async () => {
    await crowd('r', 2)
    const client = world.client('ana', { transport: 'sse' })
    const room = client.enter('r', { observe: true })
    await world.pass()
    const fetch = world.http.fetch
    const held: (() => void)[] = []
    world.http.hold = () => new Promise<void>((resolve) => held.push(resolve))
    const page = room.page()
    await world.pass()
    expect(page.get().loading).toBe(true)
    world.client('zed', { transport: 'websocket' }).enter('r')
    await world.pass()
    expect(page.get()).toMatchObject({ loading: true, members: [] })
    for (const release of held) release()
    await world.pass()
    expect(shown(page)).toBe('zed u2 u1')
    expect(world.http.fetch).toBe(fetch)
  })
})

describe.each(both)('contacts over %s', (transport) => {
  test('are told once for all who ask, and only what changed', async () => {
    await crowd('r', 7)
    const room = world.client('ana', { transport }).enter('r', { observe: true })
    const one = room.contacts(['u1', 'u2', 'ben'])
    const two = room.contacts(['u2', 'cleo'])
    const seen: string[] = []
    one.subscribe((list) => seen.push(names(list)))
    await world.pass()
    expect(said('contacts').map(({ users }) => users)).toEqual([['ben', 'cleo', 'u1', 'u2']])
    expect([names(one.get()), names(two.get())]).toEqual(['u1 u2', 'u2'])
    const before = two.get()
    const ben = world.client('ben').enter('r')
    await world.pass()
    expect([names(one.get()), two.get()]).toEqual(['ben u1 u2', before])
    expect(two.get()).toBe(before)
    ben.leave()
    await world.pass()
    expect(seen).toEqual(['', 'u1 u2', 'ben u1 u2', 'u1 u2'])
    one.close()
    one.close()
    await world.pass(300)
    expect(said('contacts').at(-1)?.users).toEqual(['cleo', 'u2'])
    world.client('cleo').enter('r')
    await world.pass()
    expect([names(one.get()), names(two.get())]).toEqual(['u1 u2', 'cleo u2'])
    two.close()
    await world.pass(300)
    expect(said('contacts').at(-1)?.users).toEqual([])
  })

  test('are asked for again on a new stream', async () => {
    const room = world.client('ana', { transport }).enter('r')
    const contacts = room.contacts(['ben'])
    await world.pass()
    world.client('ben').enter('r')
    await world.pass()
    expect(names(contacts.get())).toBe('ben')
    world.server.restart()
    await world.pass(5_000)
    expect(said('contacts').length).toBeGreaterThan(1)
    expect(names(contacts.get())).toBe('ben')
  })

  test('mounted and unmounted in one moment costs no word', async () => {
    const room = world.client('ana', { transport }).enter('r')
    room.contacts(['ben'])
    await world.pass(300)
    for (let i = 0; i < 20; i++) room.contacts(['ben']).close()
    await world.pass(1_000)
    expect(said('contacts')).toHaveLength(1)
  })

  test('too many are refused with a word', async () => {
    const room = world.client('ana', { transport }).enter('r')
    const many = Array.from({ length: 1_001 }, (_, i) => `u${i}`)
    expect(() => room.contacts(many)).toThrow('1001 users are watched; the limit is 1000')
    expect(() => room.contacts([''])).toThrow('non-empty')
    const errors: string[] = []
    room.on('error', ({ error }) => errors.push(error.code))
    room.contacts(many.slice(0, 201))
    await world.pass()
    expect(errors).toEqual(['rate_limited'])
  })
})

describe.each(both)('online over %s', (transport) => {
  test('tells of users in any room, for all who ask, and again on a new stream', async () => {
    const client = world.client('ana', { transport })
    const own = client.enter('mine')
    const ben = world.client('ben').enter('far', { status: 'idle' })
    await world.pass()
    const one = client.online(['ben', 'cleo'])
    const two = client.online(['cleo'])
    await world.pass()
    expect([...one.get()]).toEqual([['ben', 'idle']])
    world.client('cleo').enter('elsewhere')
    await world.pass()
    expect([[...one.get()], [...two.get()]]).toEqual([
      [
        ['ben', 'idle'],
        ['cleo', 'active'],
      ],
      [['cleo', 'active']],
    ])
    const before = two.get()
    ben.setStatus('active')
    await world.pass(200)
    expect(one.get().get('ben')).toBe('active')
    expect(two.get()).toBe(before)
    expect(said('users')).toHaveLength(1)
    const newest = [...world.server.connections.values()].find(({ user }) => user === 'ana')
    newest?.port?.end(1006, null)
    await world.pass(1_000)
    expect(said('users')).toHaveLength(2)
    ben.leave()
    await world.pass()
    expect([...one.get().keys()]).toEqual(['cleo'])
    one.close()
    two.close()
    await world.pass(300)
    expect(said('users').at(-1)?.users).toEqual([])
    own.leave()
    expect(client.connection.get()).toBe('initial')
  })

  test('the limit counts all who ask', () => {
    const client = world.client('ana', { transport })
    const users = (from: number, n: number) => Array.from({ length: n }, (_, i) => `u${from + i}`)
    expect(() => client.online(users(0, 201))).toThrow('201 users are watched; the limit is 200')
    const first = client.online(users(0, 200))
    client.online(users(100, 101)).close()
    expect(String(world.errors.pop())).toContain('201 users are watched; the limit is 200')
    first.close()
    expect(client.connection.get()).toBe('initial')
    client.close()
    expect(() => client.online(['ben'])).toThrow('closed')
  })
})

test('who is online needs no room, and the last one to ask closes the connection', async () => {
  const client = world.client('ana')
  world.client('ben').enter('r')
  const online = client.online(['ben'])
  await world.pass()
  expect([...online.get().keys()]).toEqual(['ben'])
  online.close()
  expect(client.connection.get()).toBe('initial')
  await world.pass()
  client.online(['ben'])
  await world.pass()
  expect(client.connection.get()).toBe('connected')
  client.close()
  expect(client.connection.get()).toBe('disconnected')
})
