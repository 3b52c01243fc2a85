// @vitest-environment happy-dom
import { createRoot as solidRoot } from 'solid-js'
import { mount, unmount } from 'svelte'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createApp, effectScope, h, nextTick, ref, shallowRef } from 'vue'
import { lingerMs } from '../../src/adapter/hold.ts'
import type { Client } from '../../src/core/client.ts'
import { createRoom } from '../../src/solid.ts'
import { useReadable, useRoom } from '../../src/vue.ts'
import { FakePage, World } from '../fake/world.ts'
import Names from './Names.svelte'

/* The adapters in the real frameworks. Each stays in the room while mounted, and leaves nothing behind. */

let world: World
let client: Client
let page: FakePage
beforeEach(() => {
  world = new World()
  page = new FakePage()
  client = world.client('ana', {}, page)
})
afterEach(async () => {
  await world.pass(lingerMs)
  expect(world.users('r')).not.toContain('ana')
  expect(client.connection.get()).toBe('initial')
  expect(page.listeners).toBe(0)
  world.end()
})

describe('vue', () => {
  test('a component shows the room, follows the id, and leaves', async () => {
    const id = ref('r')
    const Page = {
      setup() {
        const { others, count, connection, room } = useRoom(client, id, { data: { a: 1 } })
        return () =>
          h(
            'p',
            `${room.value.id} ${count.value} ${connection.value} ${others.value.map(({ user }) => user)}`,
          )
      },
    }
    const box = document.createElement('div')
    const app = createApp(Page)
    app.mount(box)
    const bob = world.client('bob').enter('r')
    await world.pass()
    expect(box.textContent).toBe('r 2 connected bob')
    expect(bob.others.get()).toMatchObject([{ data: { a: 1 } }])
    id.value = 's'
    await world.pass(lingerMs)
    await nextTick()
    expect(box.textContent).toBe('s 1 connected ')
    expect([world.users('r'), world.users('s')]).toEqual([['bob'], ['ana']])
    app.unmount()
    await world.pass(lingerMs)
    expect(world.users('s')).toEqual([])
  })

  test('a readable in a scope', async () => {
    const scope = effectScope()
    const store = client.connection
    const state = scope.run(() => useReadable(shallowRef(store)))
    expect(state?.value).toBe('initial')
    const room = client.enter('r')
    expect(state?.value).toBe('initial')
    await world.pass()
    expect(state?.value).toBe('connected')
    scope.stop()
    room.leave()
    expect(state?.value).toBe('connected')
  })
})

test('svelte: a component shows the room and leaves', async () => {
  const target = document.createElement('div')
  const app = mount(Names, { target, props: { client, id: 'r', options: { data: { a: 1 } } } })
  await world.pass()
  const bob = world.client('bob').enter('r')
  await world.pass()
  expect(target.textContent).toBe('2 connected bob')
  expect(bob.others.get()).toMatchObject([{ data: { a: 1 } }])
  await unmount(app)
})

test('solid: an owner is in the room until it is disposed of', async () => {
  const bob = world.client('bob').enter('r')
  const { room, dispose } = solidRoot((dispose) => ({
    room: createRoom(client, 'r', { data: { a: 1 } }),
    dispose,
  }))
  await world.pass()
  expect([room.count(), room.connection(), room.others().map(({ user }) => user)]).toEqual([
    2,
    'connected',
    ['bob'],
  ])
  room.room.set({ b: 2 })
  await world.pass(200)
  expect(room.data()).toEqual({ a: 1, b: 2 })
  expect(bob.others.get()).toMatchObject([{ data: { a: 1, b: 2 } }])
  dispose()
})

test('a moved component is not seen to leave', async () => {
  const bob = world.client('bob').enter('r')
  await world.pass()
  const events: string[] = []
  bob.on('leave', ({ member }) => events.push(member.user))
  const box = document.createElement('div')
  for (let i = 0; i < 3; i++) {
    const app = mount(Names, { target: box, props: { client, id: 'r' } })
    await world.pass(20)
    await unmount(app)
    await world.pass(20)
  }
  expect(events).toEqual([])
  await world.pass(lingerMs)
  expect(events).toEqual(['ana'])
})
