import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createClient } from '../src/index.ts'
import { createFakeServer, type FakeRollcall } from '../src/testing.ts'

/* The fake server as the tests of an application use it. */

const user = (member: { user: string }) => member.user

describe('with fake timers', () => {
  let server: FakeRollcall
  beforeEach(() => {
    vi.useFakeTimers()
    server = createFakeServer({ countsAbove: 5, countsBelow: 3 })
  })
  afterEach(() => {
    server.stop()
    expect(server.errors).toEqual([])
    expect(vi.getTimerCount()).toBe(0)
    vi.useRealTimers()
  })
  const pass = (ms = 0) => vi.advanceTimersByTimeAsync(ms)

  test('others come, change, signal and go', async () => {
    const client = server.client('ana')
    const room = client.enter('r', { data: { page: 1 } })
    const events: string[] = []
    room.on('join', ({ member }) => events.push(`join ${member.user}`))
    room.on('leave', ({ member, reason }) => events.push(`leave ${member.user} ${reason}`))
    await pass()
    expect(server.room('r').users).toEqual(['ana'])
    expect(server.room('r').data('ana')).toEqual({ page: 1 })
    server.room('r').join('ben', { info: { name: 'Ben' }, data: { mood: 'fine' }, status: 'idle' })
    server.room('r').join('ben')
    expect(room.others.get()).toMatchObject([{ user: 'ben', connections: 2 }])
    server.room('r').set('ben', { mood: 'calm' })
    server.room('r').setStatus('ben', 'away')
    server.room('r').signal('ben', 'cursor', { x: 1 })
    expect(room.others.get()).toMatchObject([{ status: 'idle', data: { mood: 'calm' } }])
    expect([...room.signals('cursor').get().values()]).toMatchObject([{ user: 'ben', data: { x: 1 } }])
    server.room('r').leave('ben', 'expired')
    expect(events).toEqual(['join ben', 'leave ben expired'])
    expect(() => server.room('r').set('ben', {})).toThrow('ben is not in r')
    server.room('r').leave('ana', 'kicked')
    expect(room.health.get().ended).toBe('kicked')
    client.close()
  })

  test('a lost link, a server that is away, one that forgot', async () => {
    const client = server.client('ana')
    const room = client.enter('r')
    server.room('r').join('ben')
    const leaves: string[] = []
    room.on('leave', ({ member }) => leaves.push(member.user))
    await pass()
    server.drop()
    expect(client.connection.get()).toBe('reconnecting')
    await pass(300)
    expect(client.connection.get()).toBe('connected')
    server.down()
    await pass(60_000)
    expect([client.connection.get(), room.others.get().map(user)]).toEqual(['reconnecting', ['ben']])
    server.up()
    await pass(30_000)
    expect(client.connection.get()).toBe('connected')
    expect(leaves).toEqual([])
    server.restart()
    await pass(5_000)
    expect(server.room('r').users).toEqual(['ana'])
    expect(leaves).toEqual(['ben'])
    client.close()
  })

  test.each(['websocket', 'sse'] as const)('a crowd names nobody, but has pages: %s', async (transport) => {
    const client = server.client('ana', { transport })
    const room = client.enter('r')
    await pass()
    server.room('r').fill(6)
    await pass()
    expect([room.mode.get(), room.count.get(), room.others.get()]).toEqual(['counts', 7, []])
    const page = room.page({ limit: 2 })
    await pass()
    expect(page.get().members.map(user)).toEqual(['guest-6', 'guest-5'])
    expect(server.said.at(-1)).toMatchObject({ type: 'page', room: 'r', limit: 2 })
    client.close()
  })
})

test('with real timers, and a client that the application makes', async () => {
  const server = createFakeServer()
  const client = createClient({ guest: { user: 'ana' } }, server.environment())
  const room = client.enter('r')
  server.room('r').join('ben')
  await expect.poll(() => room.others.get().map(user)).toEqual(['ben'])
  client.close()
  server.stop()
})
