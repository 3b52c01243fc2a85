// @vitest-environment happy-dom
import { act, createElement as h, type ReactNode, StrictMode, useEffect } from 'react'
import { createRoot, hydrateRoot, type Root } from 'react-dom/client'
import { renderToString } from 'react-dom/server'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { lingerMs } from '../../src/adapter/hold.ts'
import type { Client } from '../../src/core/client.ts'
import {
  RollcallProvider,
  RoomProvider,
  type RoomProviderProps,
  shallow,
  useCount,
  useCursors,
  useLostConnectionListener,
  useMyPresence,
  useOther,
  useOthers,
  useRoom,
  useRoomMode,
  useSelf,
  useSignal,
  useStatus,
  useTyping,
  useUpdateMyPresence,
} from '../../src/react.ts'
import { FakePage, World } from '../fake/world.ts'

;(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true

let world: World
let box: HTMLElement
let root: Root
let client: Client
let page: FakePage
beforeEach(() => {
  world = new World()
  box = document.createElement('div')
  root = createRoot(box)
  page = new FakePage()
  client = world.client('ana', {}, page)
})
afterEach(async () => {
  await act(async () => root.unmount())
  await pass(lingerMs)
  expect(client.connection.get()).toBe('initial')
  expect(page.listeners).toBe(0)
  expect(world.errors).toEqual([])
  client.close()
  world.end()
})

const pass = (ms = 0) => act(() => world.pass(ms))
const tree = (children: ReactNode, props: Partial<RoomProviderProps> = {}) =>
  h(RollcallProvider, { client }, h(RoomProvider, { id: 'r', ...props }, children))
const show = (node: ReactNode) => act(async () => root.render(node))

/** A component that counts its renderings and keeps what `use` gave each time. */
function probe<T>(use: () => T) {
  const seen: T[] = []
  const Probe = () => {
    seen.push(use())
    return null
  }
  return { seen, node: h(Probe) }
}

describe('a room', () => {
  test('is entered while mounted, and shown', async () => {
    const Names = () => h('p', null, useOthers((others) => others.map(({ user }) => user)).join())
    const Facts = () => h('i', null, [useCount(), useRoomMode(), useStatus(), useSelf()?.user].join())
    await show(tree([h(Names, { key: 1 }), h(Facts, { key: 2 })], { initialPresence: { page: 1 } }))
    const bob = world.client('bob').enter('r')
    await pass()
    expect(box.textContent).toBe('bob2,full,connected,ana')
    expect(bob.others.get()).toMatchObject([{ user: 'ana', data: { page: 1 } }])
    await act(async () => root.render(null))
    await pass(lingerMs)
    expect(world.users('r')).toEqual(['bob'])
  })

  test('changes with its id: the old one is left, children are kept', async () => {
    let mounts = 0
    const Child = () => {
      useEffect(() => {
        mounts++
      }, [])
      return h('p', null, `${useRoom().id} ${useCount()}`)
    }
    await show(tree(h(Child)))
    await pass()
    await show(tree(h(Child), { id: 's' }))
    await pass(lingerMs)
    expect([world.users('r'), world.users('s')]).toEqual([[], ['ana']])
    expect(box.textContent).toBe('s 1')
    expect(mounts).toBe(1)
    expect(world.opens).toHaveLength(1)
  })

  test('what children set in their first effect goes along with the entry', async () => {
    const Child = () => {
      const [mine, update] = useMyPresence()
      useEffect(() => update({ cursor: null }), [update])
      return h('p', null, JSON.stringify(mine))
    }
    await show(tree(h(Child), { initialPresence: { a: 1 } }))
    expect(box.textContent).toBe('{"a":1,"cursor":null}')
    await pass()
    expect(world.server.roster('r')).toMatchObject([{ data: { a: 1, cursor: null } }])
    expect(world.server.said.map(({ type }) => type)).toEqual(['join'])
  })

  test('mounted again after a kick it is entered again', async () => {
    const count = probe(useCount)
    await show(tree(count.node))
    await pass()
    const [connection] = world.server.connections.values()
    await act(async () => connection?.port?.send([{ type: 'ended', room: 'r', reason: 'kicked' }]))
    if (connection) world.server.leave(connection, 'r', 'kicked')
    await pass()
    expect([count.seen.at(-1), world.users('r')]).toEqual([0, []])
    await show(null)
    await show(tree(count.node))
    await pass(lingerMs * 2)
    expect([count.seen.at(-1), world.users('r')]).toEqual([1, ['ana']])
  })

  test('the status can be fixed and freed, and an observer is not seen', async () => {
    await show(tree(null, { status: 'away' }))
    await pass()
    expect(world.server.roster('r')).toMatchObject([{ status: 'away' }])
    await show(tree(null, {}))
    await pass(200)
    expect(world.server.roster('r')).toMatchObject([{ status: 'active' }])
    const count = probe(useCount)
    await show(tree(count.node, { id: 'o', observe: true }))
    world.client('bob').enter('o')
    await pass(lingerMs)
    expect(world.users('o')).toEqual(['bob'])
    expect(count.seen.at(-1)).toBe(1)
  })
})

describe('A43: strict mode and quick remounts', () => {
  const log = () => {
    const bob = world.client('bob').enter('r')
    const events: string[] = []
    bob.on('join', ({ member }) => events.push(`join ${member.user}`))
    bob.on('leave', ({ member }) => events.push(`leave ${member.user}`))
    return events
  }

  test('strict mode: one connection, one join, no leave', async () => {
    const events = log()
    await pass()
    const opens = world.opens.length
    const others = probe(() => useOthers())
    await show(h(StrictMode, null, tree(others.node)))
    await pass(1_000)
    expect(events).toEqual(['join ana'])
    expect(world.opens.length - opens).toBe(1)
    expect(others.seen.at(-1)?.map(({ user }) => user)).toEqual(['bob'])
  })

  test('mounted and unmounted 20 times in 200 ms, mounted in the end', async () => {
    const events = log()
    await pass()
    const opens = world.opens.length
    for (let i = 0; i < 20; i++) {
      await show(h(StrictMode, null, tree(null, { initialPresence: { i } })))
      await pass(5)
      await show(null)
      await pass(5)
    }
    const count = probe(useCount)
    await show(h(StrictMode, null, tree(count.node, { initialPresence: { i: 20 } })))
    await pass(1_000)
    expect(events).toEqual(['join ana'])
    expect(world.opens.length - opens).toBeLessThanOrEqual(2)
    expect(world.server.roster('r').find(({ user }) => user === 'ana')).toMatchObject({
      connections: 1,
      data: { i: 20 },
    })
    expect(count.seen.at(-1)).toBe(2)
    await show(null)
    await pass(lingerMs)
    expect(events).toEqual(['join ana', 'leave ana'])
  })

  test('two providers of one room share it; the last one leaves', async () => {
    await show([tree(null), tree(null)].map((node, key) => h('div', { key }, node)))
    await pass()
    expect(world.server.roster('r')).toMatchObject([{ user: 'ana', connections: 1 }])
    await show([h('div', { key: 0 }, tree(null))])
    await pass(lingerMs * 2)
    expect(world.users('r')).toEqual(['ana'])
  })
})

describe('renderings', () => {
  test('happen only when what is selected changed', async () => {
    const bob = world.client('bob').enter('r', { data: { x: 0 } })
    await pass()
    const all = probe(() => useOthers())
    const names = probe(() => useOthers((others) => others.map(({ user }) => user), shallow))
    const one = probe(() => useOther('bob', ({ data }) => data.mood))
    const nobody = probe(() => useOther('zed'))
    const count = probe(useCount)
    const mode = probe(useRoomMode)
    const update = probe(useUpdateMyPresence)
    const mine = probe(useMyPresence)
    const self = probe(() => useSelf(({ status }) => status))
    const probes = [all, names, one, nobody, count, mode, update, mine, self]
    await show(tree(probes.map(({ node }, key) => h('div', { key }, node))))
    await pass(1_000)
    const before = probes.map(({ seen }) => seen.length)
    const more = () => probes.map(({ seen }, i) => seen.length - (before[i] ?? 0))
    await act(async () => bob.set({ x: 1 }))
    await pass(1_000)
    expect(more()).toEqual([1, 0, 0, 0, 0, 0, 0, 0, 0])
    await act(async () => bob.set({ mood: 'calm' }))
    await pass(1_000)
    expect(more()).toEqual([2, 0, 1, 0, 0, 0, 0, 0, 0])
    await act(async () => update.seen[0]?.({ y: 1 }))
    await pass(1_000)
    expect(more()).toEqual([2, 0, 1, 0, 0, 0, 0, 1, 0])
    await act(async () => update.seen[0]?.({ y: 1 }))
    await pass(1_000)
    expect(more()).toEqual([2, 0, 1, 0, 0, 0, 0, 1, 0])
    await act(async () => world.client('cem').enter('r'))
    await pass(1_000)
    expect(more()).toEqual([3, 1, 1, 0, 1, 0, 0, 1, 0])
    expect(new Set(update.seen).size).toBe(1)
  })

  test('a reconnect renders only those who ask for the status', async () => {
    world.client('bob').enter('r')
    const [others, count, status] = [probe(() => useOthers()), probe(useCount), probe(useStatus)]
    await show(tree([others, count, status].map(({ node }, key) => h('div', { key }, node))))
    await pass()
    const before = [others.seen.length, count.seen.length]
    await act(async () => world.socket.end(1006, null))
    await pass(1_000)
    expect([others.seen.length, count.seen.length]).toEqual(before)
    expect([...new Set(status.seen)]).toEqual(['initial', 'connecting', 'connected', 'reconnecting'])
    expect(status.seen.at(-1)).toBe('connected')
  })

  test('a parent that renders again keeps the identity of what was selected', async () => {
    const names = probe(() => useOthers((others) => others.map(({ user }) => user), shallow))
    await show(tree(names.node))
    world.client('bob').enter('r')
    await pass()
    await show(tree(h('div', null, names.node)))
    const kept = names.seen.at(-1)
    const Again = () => {
      names.seen.push(useOthers((others) => others.map(({ user }) => user), shallow))
      return null
    }
    await show(tree(h(Again)))
    await show(tree(h(Again)))
    expect(names.seen.at(-1)).toEqual(kept)
    expect(names.seen.at(-1)).toBe(names.seen.at(-2))
  })
})

describe('signals', () => {
  test('useSignal: the others by connection, and a stable way to signal', async () => {
    const bob = world.client('bob').enter('r')
    const notes = probe(() => useSignal('note'))
    await show(tree(notes.node))
    await pass()
    await act(async () => bob.signal('note', 'hi'))
    await pass(100)
    expect([...(notes.seen.at(-1)?.[0].values() ?? [])]).toMatchObject([{ user: 'bob', data: 'hi' }])
    await act(async () => notes.seen[0]?.[1]('ho'))
    await pass(100)
    expect([...bob.signals('note').get().values()]).toMatchObject([{ user: 'ana', data: 'ho' }])
    expect(new Set(notes.seen.map(([, signal]) => signal)).size).toBe(1)
    const before = notes.seen.length
    await act(async () => bob.set({ x: 1 }))
    await pass(200)
    expect(notes.seen.length).toBe(before)
  })

  test('useTyping: who types, until three seconds after the last key', async () => {
    const bob = world.client('bob').enter('r')
    const typing = probe(useTyping)
    await show(tree(typing.node))
    await pass()
    await act(async () => bob.typing())
    await pass(100)
    expect(typing.seen.at(-1)?.[0].map(({ user }) => user)).toEqual(['bob'])
    await act(async () => typing.seen[0]?.[1]())
    await pass(100)
    expect([...bob.signals('typing').get().values()].map(({ user }) => user)).toEqual(['ana'])
    await pass(4_000)
    expect(typing.seen.at(-1)?.[0]).toEqual([])
  })

  test('useCursors: smooth, and still when nobody moves', async () => {
    const bob = world.client('bob').enter('r')
    const cursors = probe(() => useCursors())
    await show(h(StrictMode, null, tree(cursors.node)))
    await pass()
    for (let i = 0; i <= 10; i++) {
      await act(async () => bob.signal('cursor', { x: i * 10, y: 0 }))
      for (let j = 0; j < 5; j++) await pass(10)
    }
    await pass(500)
    expect(cursors.seen.at(-1)).toMatchObject([{ user: 'bob', x: 100, y: 0, opacity: 1 }])
    const xs = cursors.seen.map(([cursor]) => cursor?.x ?? 0)
    expect(new Set(xs).size).toBeGreaterThan(15)
    const before = cursors.seen.length
    await pass(1_000)
    expect(cursors.seen.length).toBe(before)
    await act(async () => bob.leave())
    await pass(100)
    expect(cursors.seen.at(-1)).toEqual([])
  })
})

describe('on a server', () => {
  const Page = () => h('p', null, `${useCount()} ${useStatus()} ${JSON.stringify(useMyPresence()[0])}`)
  const app = () => tree(h(Page), { initialPresence: { a: 1 } })

  test('nothing is opened, and the page takes over without a complaint', async () => {
    const html = renderToString(app())
    expect(html).toContain('0 initial')
    await pass()
    expect(world.opens).toEqual([])
    // Somebody else on this page has already entered: the first rendering is still the server's.
    const early = client.enter('r')
    await pass()
    await act(async () => root.unmount())
    box = document.createElement('div')
    box.innerHTML = html
    const complaints: unknown[] = []
    await act(async () => {
      root = hydrateRoot(box, app(), { onRecoverableError: (error) => complaints.push(error) })
    })
    await pass()
    expect(complaints).toEqual([])
    expect(box.textContent).toContain('1 connected')
    early.leave()
  })
})

describe('a lost connection', () => {
  test('is told after five seconds, and once it is back; a short one is not', async () => {
    const told: string[] = []
    const Listener = () => {
      useLostConnectionListener((event) => told.push(event))
      return null
    }
    await show(tree(h(Listener)))
    await pass()
    world.socket.end(1006, null)
    await pass(2_000)
    expect(told).toEqual([])
    world.hang = true
    world.socket.end(1006, null)
    await pass(5_000)
    expect(told).toEqual(['lost'])
    world.hang = false
    await pass(30_000)
    expect(told).toEqual(['lost', 'restored'])
  })

  test('is failed where there is no way back', async () => {
    const told: string[] = []
    const Listener = () => {
      useLostConnectionListener((event) => told.push(event))
      return null
    }
    await show(tree(h(Listener)))
    await pass()
    world.refuse = [4403]
    world.socket.end(1006, null)
    await pass(2_000)
    expect(told).toEqual(['failed'])
    await act(async () => root.render(null))
    await pass(lingerMs)
  })
})

test('hooks outside of a provider say what is missing', async () => {
  const Lonely = () => h('p', null, useCount())
  expect(() => renderToString(h(Lonely))).toThrow('RoomProvider')
  expect(() => renderToString(h(RoomProvider, { id: 'r' }))).toThrow('RollcallProvider')
})

test.each([
  [[1, 2], [1, 2], true],
  [[1, 2], [1, 3], false],
  [{ a: 1 }, { a: 1 }, true],
  [{ a: 1 }, { b: 1 }, false],
  [{ a: undefined }, {}, false],
  [[], {}, false],
  [null, {}, false],
  [Number.NaN, Number.NaN, true],
  [[{ a: 1 }], [{ a: 1 }], false],
])('shallow %j %j', (a, b, equal) => {
  expect(shallow(a, b)).toBe(equal)
})
