// @vitest-environment happy-dom
import { act, createElement as h, type ReactNode, StrictMode } from 'react'
import { createRoot, type Root } from 'react-dom/client'
import { renderToString } from 'react-dom/server'
import { createRoot as solidRoot } from 'solid-js'
import { mount, unmount } from 'svelte'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { effectScope } from 'vue'
import { lingerMs } from '../../src/adapter/hold.ts'
import type { Client } from '../../src/core/client.ts'
import type { Member } from '../../src/core/member.ts'
import { RollcallProvider, RoomProvider, useContacts, useOnline, usePage } from '../../src/react.ts'
import { createOpening, createRoom } from '../../src/solid.ts'
import { onlineOf, useOpening, useRoom } from '../../src/vue.ts'
import { World } from '../fake/world.ts'
import Page from './Page.svelte'

/* Pages, contacts and who is online in the frameworks: open while mounted, closed after. */
;(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true

let world: World
let client: Client
beforeEach(() => {
  world = new World({ countsAbove: 3, countsBelow: 2 })
  client = world.client('ana')
})
afterEach(async () => {
  await world.pass(lingerMs)
  expect(client.connection.get()).toBe('initial')
  expect(world.errors).toEqual([])
  world.end()
})

const names = (list: readonly Member[] | undefined) => list?.map(({ user }) => user).join(' ')
const said = (type: string) => world.server.said.filter((message) => message.type === type)
async function crowd(n: number) {
  for (let i = 1; i <= n; i++) {
    world.client(`u${i}`).enter('r')
    await world.pass(10)
  }
}

describe('react', () => {
  let box: HTMLElement
  let root: Root
  beforeEach(() => {
    box = document.createElement('div')
    root = createRoot(box)
  })
  afterEach(() => act(async () => root.unmount()))

  const pass = (ms = 0) => act(() => world.pass(ms))
  const tree = (children: ReactNode, observe = true) =>
    h(StrictMode, null, h(RollcallProvider, { client }, h(RoomProvider, { id: 'r', observe }, children)))
  const show = (node: ReactNode) => act(async () => root.render(node))

  function probe<T>(use: () => T) {
    const seen: T[] = []
    const Probe = () => {
      seen.push(use())
      return null
    }
    return { seen, node: h(Probe), newest: () => seen.at(-1) as T }
  }

  test('usePage: a window that grows, renders only on change, and closes', async () => {
    await crowd(6)
    const page = probe(() => usePage({ limit: 2 }))
    await show(tree(page.node))
    expect(page.seen[0]).toMatchObject({ members: [], loading: true })
    await pass(500)
    expect(names(page.newest().members)).toBe('u6 u5')
    expect(page.newest()).toMatchObject({ count: 6, loading: false })
    await act(async () => page.newest().more())
    await pass()
    expect(names(page.newest().members)).toBe('u6 u5 u4 u3')
    await act(async () => page.newest().next())
    await pass()
    expect(names(page.newest().members)).toBe('u2 u1')
    const before = page.seen.length
    await act(async () => world.client('zed').enter('r'))
    await pass(2_000)
    expect(page.seen.length).toBe(before)
    await show(null)
    await pass()
    const connections = [...world.server.connections.values()]
    expect(connections.flatMap(({ watching }) => [...(watching.pages.get('r')?.keys() ?? [])])).toEqual([])
    expect(said('closePage').length).toBe(said('page').length - 1)
  })

  test('useContacts: a list written in place is asked for once', async () => {
    await crowd(4)
    const contacts = probe(() => useContacts(['u1', 'ben']))
    await show(tree(contacts.node))
    await pass(500)
    expect(names(contacts.newest())).toBe('u1')
    expect(said('contacts')).toHaveLength(1)
    const before = contacts.seen.length
    await act(async () => world.client('zed').enter('r'))
    await pass(500)
    expect(contacts.seen.length).toBe(before)
    await act(async () => world.client('ben').enter('r'))
    await pass(500)
    expect(names(contacts.newest())).toBe('ben u1')
    await show(tree(contacts.node))
    expect(said('contacts')).toHaveLength(1)
  })

  test('useOnline: without a room', async () => {
    const online = probe(() => useOnline(['u1', 'ben']))
    await show(h(StrictMode, null, h(RollcallProvider, { client }, online.node)))
    await act(() => crowd(1))
    await pass(500)
    expect([...online.newest()]).toEqual([['u1', 'active']])
    expect(said('users')).toHaveLength(1)
    await show(null)
    expect(client.connection.get()).toBe('initial')
  })

  test('on a server nothing is asked for', async () => {
    const All = () => {
      const page = usePage()
      return h('p', null, `${page.loading} ${useContacts(['ben']).length} ${useOnline(['ben']).size}`)
    }
    expect(renderToString(tree(h(All)))).toContain('true 0 0')
    await pass()
    expect(world.opens).toEqual([])
  })
})

test('vue: open until the scope is disposed of', async () => {
  await crowd(4)
  const scope = effectScope()
  const refs = scope.run(() => {
    const { room } = useRoom(client, 'r', { observe: true })
    return {
      page: useOpening(room.value.page({ limit: 2 })),
      contacts: useOpening(room.value.contacts(['u1'])),
      online: useOpening(onlineOf(client, ['u2'])),
    }
  })
  await world.pass(300)
  expect(names(refs?.page.value.members)).toBe('u4 u3')
  expect(names(refs?.contacts.value)).toBe('u1')
  expect([...(refs?.online.value.keys() ?? [])]).toEqual(['u2'])
  scope.stop()
  await world.pass()
  expect(said('closePage')).toHaveLength(1)
})

test('solid: open until the owner is disposed of', async () => {
  await crowd(4)
  const { page, online, dispose } = solidRoot((dispose) => {
    const { room } = createRoom(client, 'r', { observe: true })
    const page = createOpening(room.page({ limit: 2 }))
    return { page, online: createOpening(onlineOf(client, ['u2'])), dispose }
  })
  await world.pass(300)
  expect(names(page().members)).toBe('u4 u3')
  expect([...online().keys()]).toEqual(['u2'])
  dispose()
  await world.pass()
  expect(said('closePage')).toHaveLength(1)
})

test('svelte: open while the component is mounted', async () => {
  await crowd(4)
  const target = document.createElement('div')
  const app = mount(Page, { target, props: { client, id: 'r' } })
  await world.pass(300)
  expect(target.textContent).toBe('u4 u3 of 4, u2')
  await unmount(app)
  await world.pass()
  expect(said('closePage')).toHaveLength(1)
})
