import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Room } from '../src/core/room.ts'
import { World } from './fake/world.ts'

/* The client's half of field cases that no other file has. */

const both = ['websocket', 'sse'] as const

let world: World
beforeEach(() => {
  world = new World()
})
afterEach(() => {
  expect(world.errors).toEqual([])
  world.end()
})

function eventsOf(room: Room): string[] {
  const events: string[] = []
  room.on('join', ({ member }) => events.push(`join ${member.user}`))
  room.on('update', ({ member }) => events.push(`update ${member.user} ${JSON.stringify(member.data)}`))
  room.on('leave', ({ member }) => events.push(`leave ${member.user}`))
  return events
}

test.each(both)('A10: whoever comes back with the same state is announced again: %s', async (transport) => {
  const watcher = world.client('watcher', { transport }).enter('r')
  await world.pass()
  const events = eventsOf(watcher)
  world
    .client('ana')
    .enter('r', { data: { color: 'red' } })
    .leave()
  await world.pass()
  const first = world.client('ana').enter('r', { data: { color: 'red' } })
  await world.pass()
  first.leave()
  await world.pass(100)
  world.client('ana').enter('r', { data: { color: 'red' } })
  await world.pass()
  expect(watcher.others.get()).toMatchObject([{ user: 'ana', data: { color: 'red' } }])
  expect(events.filter((event) => event.startsWith('join')).length).toBe(
    events.filter((event) => event.startsWith('leave')).length + 1,
  )
  expect(events.at(-1)).toBe('join ana')
})

test.each(both)('A13: a change of state is an update, never a leave and a join: %s', async (transport) => {
  const watcher = world.client('watcher').enter('r')
  await world.pass()
  const events = eventsOf(watcher)
  const room = world.client('ana', { transport }).enter('r', { data: { n: 0 } })
  await world.pass()
  for (let n = 1; n <= 20; n++) {
    room.set({ n })
    await world.pass(37)
  }
  await world.pass(1_000)
  expect(events[0]).toBe('join ana')
  const updates = events.slice(1).map((event) => Number(/^update ana {"n":(\d+)}$/.exec(event)?.[1]))
  expect(updates.length).toBeGreaterThan(0)
  expect(updates).toEqual([...new Set(updates)].sort((a, b) => a - b))
  expect(updates.at(-1)).toBe(20)
})

test.each(both)(
  'A29: ids and keys that objects are born with are names like any other: %s',
  async (transport) => {
    const names = ['__proto__', 'constructor', 'prototype', 'toString']
    const watcher = world.client('ana', { transport }).enter('r')
    const page = watcher.page()
    const contacts = watcher.contacts(names)
    await world.pass()
    const data = JSON.parse('{"polluted":true,"__proto__":{"p":1},"constructor":{"prototype":{"p":1}}}')
    const rooms = names.map((name) => world.client(name).enter('r', { data }))
    await world.pass()
    for (const room of rooms) room.signal('__proto__', data)
    await world.pass(100)
    const sorted = [...names].sort()
    const users = (list: readonly { user: string }[]) => list.map(({ user }) => user).sort()
    expect(users(watcher.others.get())).toEqual(sorted)
    expect(users(contacts.get())).toEqual(sorted)
    expect(users(page.get().members)).toEqual([...names, 'ana'].sort())
    expect([...watcher.signals('__proto__').get().values()].map(({ user }) => user).sort()).toEqual(sorted)
    const shown = watcher.others.get()[0]?.data ?? {}
    expect(Object.keys(shown).sort()).toEqual(['__proto__', 'constructor', 'polluted'])
    for (const room of rooms) room.leave()
    await world.pass()
    expect(watcher.members.get().map(({ user }) => user)).toEqual(['ana'])
    expect(contacts.get()).toEqual([])
    const clean = {} as Record<string, unknown>
    expect([clean.polluted, clean.p]).toEqual([undefined, undefined])
  },
)

test('A35: by default eight tabs hold no request of the browser open', async () => {
  const rooms = Array.from({ length: 8 }, () => world.client('ana').enter('r'))
  await world.pass()
  expect(world.http.opens).toEqual([])
  expect(world.sockets).toHaveLength(8)
  expect(rooms.map((room) => room.members.get().length)).toEqual(Array(8).fill(1))
  expect(rooms[7]?.self.get()).toMatchObject({ user: 'ana', connections: 8 })
})
