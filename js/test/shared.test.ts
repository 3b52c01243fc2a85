import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Client, type ClientOptions, createClient } from '../src/core/client.ts'
import type { Environment, Platform } from '../src/core/environment.ts'
import type { Room } from '../src/core/room.ts'
import { hasManyStreams, streamTabs } from '../src/core/tabs.ts'
import { shareTabs } from '../src/shared.ts'
import { FakeBrowser, type FakeTab } from './fake/tabs.ts'
import { FakePage, World } from './fake/world.ts'

/* One connection for many tabs. A35: the seventh tab lives, and a tab that closes takes nobody along. */

const both = ['websocket', 'sse'] as const

let world: World
let browser: FakeBrowser
let events: string[]
let watcher: Room
beforeEach(async () => {
  world = new World()
  browser = new FakeBrowser()
  watcher = world.client('watcher').enter('r')
  await world.pass()
  events = []
  watcher.on('join', ({ member }) => events.push(`join ${member.user}`))
  watcher.on('leave', ({ member }) => events.push(`leave ${member.user}`))
})
afterEach(() => {
  expect(world.errors).toEqual([])
  world.end()
})

interface TabOf {
  readonly tab: FakeTab
  readonly client: Client
  readonly page: FakePage
}

/** A tab of Ana's. Over event streams tabs share by themselves; over WebSocket they are told to. */
function open(options: ClientOptions = {}, sockets = true): TabOf {
  const [tab, page] = [browser.tab(), new FakePage()]
  const who = options.auth === undefined ? { guest: { user: 'ana', name: 'Ana' } } : {}
  const share = options.transport === 'websocket' ? { share: shareTabs({ tabs: tab }) } : {}
  const environment = world.environment(page, sockets)
  const own: Environment = {
    ...environment,
    setTimer: (fn, ms) => environment.setTimer(() => tab.run(fn), ms),
    tabs: tab,
  }
  return { tab, page, client: createClient({ ...who, ...share, ...options }, own) }
}

const users = (room: Room) => room.members.get().map(({ user }) => user)
const connections = () => [...world.server.connections.values()].filter(({ user }) => user === 'ana')

describe.each(both)('over %s', (transport) => {
  async function eight() {
    const tabs = Array.from({ length: 8 }, () => open({ transport }))
    const rooms = tabs.map(({ client }) => client.enter('r', { data: { a: 1 } }))
    await world.pass(1_000)
    return { tabs, rooms }
  }
  const leaderOf = (tabs: readonly TabOf[]) => tabs.find(({ tab }) => tab === browser.leader) as TabOf

  test('A35: eight tabs are one connection, and each has all of the room', async () => {
    const { tabs, rooms } = await eight()
    expect(tabs.map(({ client }) => client.connection.get())).toEqual(Array(8).fill('connected'))
    expect(rooms.map(users)).toEqual(Array(8).fill(['ana', 'watcher']))
    expect(rooms.map((room) => room.health.get().stale)).toEqual(Array(8).fill(false))
    expect(world.server.roster('r').find(({ user }) => user === 'ana')).toMatchObject({ connections: 1 })
    expect(connections()).toHaveLength(1)
    world.client('ben').enter('r')
    await world.pass()
    expect(rooms.map(users)).toEqual(Array(8).fill(['ana', 'ben', 'watcher']))
    rooms[3]?.set({ b: 2 })
    await world.pass(200)
    expect(rooms.map((room) => room.self.get()?.data)).toEqual(Array(8).fill({ a: 1, b: 2 }))
  })

  test('A35: the tab with the connection closes: the others go on with it, and nobody sees a leave', async () => {
    const { tabs, rooms } = await eight()
    const [connection] = connections()
    rooms[7]?.set({ a: 7 })
    await world.pass(500)
    const data = () => watcher.others.get()[0]?.data
    const seen: unknown[] = []
    watcher.on('update', ({ member }) => seen.push(member.data))
    for (let i = 0; i < 3; i++) {
      const leader = leaderOf(tabs)
      leader.page.hide()
      browser.crash(leader.tab)
      tabs.splice(tabs.indexOf(leader), 1)
      await world.pass(3_000)
      expect(tabs.map(({ client }) => client.connection.get())).toEqual(Array(tabs.length).fill('connected'))
      expect(connections()).toEqual([connection])
    }
    // It is that of the tab that set it last, whoever has the connection.
    expect([data(), seen]).toEqual([{ a: 7 }, []])
    watcher.signal('cursor', { x: 1 })
    await world.pass(1_000)
    const late = open({ transport })
    tabs.push(late)
    const room = late.client.enter('r')
    const cursors = room.signals('cursor')
    await world.pass(1_000)
    expect(users(room)).toEqual(['ana', 'watcher'])
    expect([...cursors.get().values()].map(({ user, data }) => [user, data])).toEqual([['watcher', { x: 1 }]])
    await world.pass(40_000)
    expect(events).toEqual(['join ana'])
    for (const { client } of tabs) client.close()
    // Each thought that another stays, so it is the close grace that ends it.
    await world.pass(1_500)
    expect(events).toEqual(['join ana', 'leave ana'])
    expect(browser.locks).toBe(0)
  })

  test('a tab that dies without a word is no ghost where it was alone', async () => {
    const { tabs } = await eight()
    const leader = leaderOf(tabs)
    const alone = world.client('watcher2').enter('s')
    leader.client.enter('s')
    await world.pass()
    expect(users(alone)).toEqual(['ana', 'watcher2'])
    const port = connections()[0]?.port
    browser.crash(leader.tab)
    port?.end(1006, null)
    leader.client.close()
    await world.pass(6_000)
    expect(users(alone)).toEqual(['watcher2'])
    expect(events).toEqual(['join ana'])
    const rest = tabs.filter((tab) => tab !== leader)
    expect(rest.map(({ client }) => client.connection.get())).toEqual(Array(7).fill('connected'))
  })

  test('the highest status counts; a room is left with the last tab in it', async () => {
    const [one, two] = [open({ transport }), open({ transport })]
    const [first, second] = [one.client.enter('r'), two.client.enter('r')]
    await world.pass(1_000)
    const status = () => watcher.others.get()[0]?.status
    one.page.setHidden(true)
    await world.pass(500)
    expect(status()).toBe('active')
    two.page.setHidden(true)
    await world.pass(500)
    expect(status()).toBe('away')
    two.page.setHidden(false)
    await world.pass(500)
    expect(status()).toBe('active')
    second.leave()
    await world.pass(1_500)
    expect([status(), events]).toEqual(['away', ['join ana']])
    first.leave()
    await world.pass(1_500)
    expect(events).toEqual(['join ana', 'leave ana'])
  })

  test('pages, contacts and users of several tabs do not meet', async () => {
    const [one, two] = [open({ transport }), open({ transport })]
    const [first, second] = [one.client.enter('r'), two.client.enter('r')]
    await world.pass(1_000)
    const pages = [first.page({ limit: 1 }), second.page({ limit: 5 })]
    const contacts = [first.contacts(['watcher']), second.contacts(['ben'])]
    const online = [one.client.online(['watcher']), two.client.online(['ben'])]
    await world.pass(500)
    world.client('ben').enter('r')
    await world.pass(500)
    expect(pages.map((page) => page.get().members.map(({ user }) => user))).toEqual([
      ['ben'],
      ['ben', 'ana', 'watcher'],
    ])
    expect(contacts.map((list) => list.get().map(({ user }) => user))).toEqual([['watcher'], ['ben']])
    expect(online.map((users) => [...users.get().keys()])).toEqual([['watcher'], ['ben']])
  })

  test('one tab looks on where another is, and alone: an observer is never seen', async () => {
    const [one, two] = [open({ transport }), open({ transport })]
    const first = one.client.enter('other')
    await world.pass(500)
    const second = two.client.enter('r', { observe: true })
    await world.pass(1_500)
    expect([users(first), users(second), events]).toEqual([['ana'], ['watcher'], []])
    const member = one.client.enter('r')
    await world.pass(1_500)
    expect(users(second)).toEqual(['ana', 'watcher'])
    member.leave()
    await world.pass(1_500)
    expect(users(second)).toEqual(['watcher'])
    expect(events).toEqual(['join ana', 'leave ana'])
    expect(users(first)).toEqual(['ana'])
  })

  test('the tab with the connection is frozen: another has it in time, and after the thaw both do', async () => {
    const { tabs, rooms } = await eight()
    const leader = leaderOf(tabs)
    leader.tab.freeze()
    await world.pass(20_000)
    expect(leaderOf(tabs)).not.toBe(leader)
    const others = tabs.filter((tab) => tab !== leader)
    expect(others.map(({ client }) => client.connection.get())).toEqual(Array(7).fill('connected'))
    world.client('ben').enter('r')
    await world.pass(500)
    const awake = rooms.filter((_, i) => tabs[i] !== leader)
    expect(awake.map(users)).toEqual(Array(7).fill(['ana', 'ben', 'watcher']))
    leader.tab.thaw()
    await world.pass(3_000)
    expect(tabs.map(({ client }) => client.connection.get())).toEqual(Array(8).fill('connected'))
    expect(rooms.map(users)).toEqual(Array(8).fill(['ana', 'ben', 'watcher']))
    await world.pass(40_000)
    expect(connections()).toHaveLength(1)
    expect(events).toEqual(['join ana', 'join ben'])
  })

  test('the server goes away and comes back: all tabs are there again, once', async () => {
    const { tabs } = await eight()
    connections()[0]?.port?.end(1006, null)
    await world.pass(3_000)
    expect(tabs.map(({ client }) => client.connection.get())).toEqual(Array(8).fill('connected'))
    expect(connections()).toHaveLength(1)
    expect(events).toEqual(['join ana'])
  })
})

test('tabs that fell back to event streams have one, and those with a WebSocket one each', async () => {
  world.refuse = [1006, 1006, 1006, 1006, 1006, 1006]
  const late = Array.from({ length: 3 }, () => open().client.enter('r'))
  await world.pass(10_000)
  expect(late.map((room) => room.connection.get())).toEqual(Array(3).fill('connected'))
  expect(connections()).toHaveLength(1)
  expect(world.refuse).toEqual([])
  const rooms = Array.from({ length: 2 }, () => open().client.enter('r'))
  await world.pass(1_000)
  expect(rooms.map((room) => room.self.get()?.connections)).toEqual([3, 3])
})

test('tabs that are told not to share do not', async () => {
  const rooms = [false as const, null].map((share) => open({ share }, false).client.enter('r'))
  await world.pass(1_000)
  expect(rooms.map((room) => room.self.get()?.connections)).toEqual([2, 2])
})

test('who a cookie is of is not known to the tab: it shares if it is told', async () => {
  const ana = { user: 'ana', name: 'Ana' }
  const cookies = (options: ClientOptions) => {
    const [tab, page] = [browser.tab(), new FakePage()]
    const environment = world.environment(page, false)
    // The server knows the user by the cookies.
    const fetch: Platform['fetch'] = (url, request) =>
      world.http.fetch(/stream\?/.test(url) ? `${url}&user=${ana.user}&name=${ana.name}` : url, request)
    const platform = { ...environment.platform, fetch }
    return { tab, client: createClient(options, { ...environment, platform, tabs: tab }) }
  }
  const rooms = [0, 1].map(() => cookies({}).client.enter('r'))
  await world.pass(1_000)
  expect(rooms.map((room) => room.self.get()?.connections)).toEqual([2, 2])
  const told = [0, 1].map(() =>
    cookies({ share: shareTabs({ as: 'ana', tabs: browser.tab() }) }).client.enter('r'),
  )
  await world.pass(1_000)
  expect(told.map((room) => room.self.get()?.connections)).toEqual([3, 3])
})

test('tabs share by themselves where the platform lets them, and their streams are few', () => {
  const environment = world.environment()
  const locks = { request: () => Promise.resolve() }
  const platform = { ...environment.platform, atob, crypto, BroadcastChannel, navigator: { locks } }
  const loaded = { getEntries: () => [{ name: 'http://fake.test/', nextHopProtocol: 'h2' }] }
  const share = (more: Partial<Environment>) =>
    streamTabs({ ...environment, platform, ...more }, 'http://fake.test/v1/') !== null
  expect(share({})).toBe(true)
  expect(share({ origin: null })).toBe(false)
  expect(share({ tabs: null })).toBe(false)
  expect(share({ platform: environment.platform })).toBe(false)
  expect(share({ platform: { ...platform, performance: loaded } })).toBe(false)
})

test('streams over HTTP/2 are many: no tab is in the way of another', () => {
  const at = (name: string, nextHopProtocol?: string) => ({ name, nextHopProtocol })
  const address = 'https://p.test/v1/'
  expect(hasManyStreams(address, [at('https://p.test/', 'h2')])).toBe(true)
  expect(hasManyStreams(address, [at('https://p.test/', 'http/1.1'), at('https://p.test/a.js', 'h3')])).toBe(
    true,
  )
  expect(hasManyStreams(address, [at('https://p.test/', 'h2'), at('https://p.test/x', 'http/1.1')])).toBe(
    false,
  )
  // Another origin may not say, and neither may a mark of the application.
  expect(
    hasManyStreams(address, [at('https://p.test/', ''), at('mark'), at('https://p.test.evil/', 'h2')]),
  ).toBe(false)
  expect(hasManyStreams(address, [])).toBe(false)
})

test('a tab that cannot make the WebSocket of all leaves that to another', async () => {
  const broken = browser.tab()
  const openSocket = () => {
    throw new SyntaxError('not an address')
  }
  const environment = { ...world.environment(new FakePage()), openSocket }
  const options = {
    guest: { user: 'ana', name: 'Ana' },
    share: shareTabs({ tabs: broken }),
    transport: 'websocket',
  } as const
  const one = createClient(options, environment)
  const [first, second] = [one.enter('r'), open({ transport: 'websocket' }).client.enter('r')]
  await world.pass(5_000)
  expect([users(first), users(second)]).toEqual([
    ['ana', 'watcher'],
    ['ana', 'watcher'],
  ])
  expect(connections()).toHaveLength(1)
})

test('who is another to the server has a connection of their own', async () => {
  const token = (claims: object) => `h.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.s`
  const claims = { sub: 'ana', rooms: ['r'], iat: 1, exp: 2 }
  const tokens = [claims, { ...claims, iat: 5, exp: 9 }, { ...claims, rooms: ['*'] }].map(token)
  const before = world.server.connections.size
  const rooms = tokens.map((auth) => open({ auth }, false).client.enter('r'))
  await world.pass(1_000)
  expect(world.server.connections.size - before).toBe(2)
  expect(rooms.map((room) => room.connection.get())).toEqual(Array(3).fill('connected'))
})
