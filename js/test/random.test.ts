import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Client } from '../src/core/client.ts'
import { Lazy } from '../src/core/lazy.ts'
import type { Json, JsonObject, Status } from '../src/core/member.ts'
import { type Part, parts } from '../src/core/parts.ts'
import type { Room } from '../src/core/room.ts'
import { FakePage, World } from './fake/world.ts'

/*
 * Several clients do what they like while links break, pages sleep, code is slow and the server forgets. Then
 * all is quiet, and everybody has to see what the server has, which has to be what they want; and when they
 * have closed, nothing is left of them.
 */

const rooms = ['r', 's', 't']
const statuses = ['active', 'idle', 'away', null] as const
/** As many as take about a second; `SEEDS=1000` for a long run. */
const seeds = Number(process.env.SEEDS ?? 20)
const quietMs = 130_000

/** In [0, 1), the same for the same seed. */
function newRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

interface Wanted {
  readonly entries: Set<Room>
  observe: boolean
  data: JsonObject
  status: Status | null
  selection: Json
}

const real = { ...parts }
let world: World
beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  Object.assign(parts, real)
  world.end()
})

/** Somebody with a client, and what they want to be in each room. */
class Person {
  readonly user: string
  /** Tells apart who is the same user. */
  readonly name: string
  readonly page = new FakePage()
  readonly wanted = new Map<string, Wanted>()
  readonly errors: string[] = []
  readonly client: Client
  readonly #random: () => number
  away = false

  constructor(user: string, transport: 'websocket' | 'sse', random: () => number) {
    this.user = user
    this.name = `${user} over ${transport}`
    this.#random = random
    this.client = world.client(user, { transport, guest: { user, name: this.name } }, this.page)
  }

  #pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.#random() * list.length)] as T
  }

  act(): void {
    if (this.client.connection.get() === 'disconnected') return
    const id = this.#pick(rooms)
    const wanted = this.wanted.get(id)
    const room = wanted && this.#pick([...wanted.entries])
    if (!wanted || !room) {
      this.enter(id)
      return
    }
    const n = Math.floor(this.#random() * 1e6)
    const acts: (() => void)[] = [
      () => this.enter(id),
      () => this.leave(id, room),
      () => this.setStatus(wanted, room),
      () => this.set(wanted, room, { [this.#pick(['a', 'b'])]: n }, false),
      () => this.set(wanted, room, { [this.#pick(['a', 'b'])]: n }, true),
      () => this.signal(wanted, room, this.#random() < 0.3 ? null : n),
      () => wanted.observe || room.typing(this.#random() < 0.7),
      () => this.watch(room),
    ]
    this.#pick(acts)()
  }

  enter(id: string): void {
    const observe = this.#random() < 0.2
    const data = { in: Math.floor(this.#random() * 1e6) }
    // Told by others on the way in: what is wanted is known before.
    const known = this.wanted.get(id)
    const wanted = known ?? { entries: new Set(), observe, data: {}, status: null, selection: null }
    this.wanted.set(id, wanted)
    if (!observe) {
      wanted.observe = false
      wanted.data = { ...wanted.data, ...data }
    }
    const room = this.client.enter(id, { observe, data })
    wanted.entries.add(room)
    room.on('error', ({ error }) => this.errors.push(`${id}: ${error.code} ${error.message}`))
    room.on('ended', () => {
      wanted.selection = null
    })
    // A hasty application: it acts on what it is told.
    const hasty = () => void (this.#random() < 0.05 && Promise.resolve().then(() => this.act()))
    room.on('join', hasty)
    room.on('leave', hasty)
    room.count.subscribe(hasty)
  }

  leave(id: string, room: Room): void {
    const { entries } = this.wanted.get(id) as Wanted
    entries.delete(room)
    if (entries.size === 0) this.wanted.delete(id)
    room.leave()
  }

  set(wanted: Wanted, room: Room, data: JsonObject, replace: boolean): void {
    if (wanted.observe) return
    wanted.data = replace ? data : { ...wanted.data, ...data }
    room.set(data, { replace })
  }

  setStatus(wanted: Wanted, room: Room): void {
    wanted.status = this.#pick(statuses)
    room.setStatus(wanted.status)
  }

  signal(wanted: Wanted, room: Room, data: Json): void {
    if (wanted.observe) return
    wanted.selection = data
    room.signal('selection', data)
  }

  watch(room: Room): void {
    const watch = this.#random() < 0.5 ? room.page({ limit: 2 }) : room.contacts(['ana', 'ben'])
    setTimeout(() => watch.close(), this.#random() * 3_000)
  }

  /** The page goes, comes, or is looked at no more. */
  turn(): void {
    if (this.away) {
      this.away = false
      this.page.wake('restored')
    } else if (this.#random() < 0.5) {
      this.page.setHidden(!this.page.document.hidden)
    } else if (this.client.connection.get() === 'connected' && this.page.listeners > 0) {
      this.away = true
      this.page.hide()
    }
  }
}

/** Code comes late, or only when it is asked for again. */
function slow(random: () => number): void {
  for (const name of Object.keys(real) as Part[]) {
    // A signal that cannot be said is an error of its own.
    let fails = random() < 0.2 && name !== 'signals'
    const fetch = () =>
      new Promise<unknown>((resolve, reject) => {
        setTimeout(
          () => {
            if (fails) reject(new Error('offline'))
            else resolve(real[name].value)
            fails = false
          },
          random() * random() * 4_000,
        )
      })
    if (random() < 0.5) Object.assign(parts, { [name]: new Lazy(fetch) })
  }
}

/** Something happens to a link, or to the server. */
function fate(random: () => number): void {
  const connections = [...world.server.connections.values()]
  const one = connections[Math.floor(random() * connections.length)]
  const chance = random()
  if (chance < 0.3) one?.port?.end(1006, null)
  else if (chance < 0.5 && one?.port) (one.port as unknown as { cut: boolean }).cut = true
  else if (chance < 0.6)
    one?.port?.end(4503, { type: 'bye', reason: 'draining', reconnectMs: random() * 900 })
  else if (chance < 0.65) world.server.restart()
  else if (chance < 0.75) {
    world.http.down = true
    for (const { port } of connections) port?.end(1006, null)
    setTimeout(() => {
      world.http.down = false
    }, random() * 5_000)
  } else if (chance < 0.85) {
    // A message that nobody got.
    for (const room of world.server.rooms.values()) if (random() < 0.5) room.version++
  } else if (one?.port) {
    const [room] = one.leases.keys()
    if (room === undefined) return
    const { port } = one
    world.server.leave(one, room, 'kicked')
    port.send([{ type: 'ended', room, reason: 'kicked' }])
  }
}

const byUser = (a: { user: string }, b: { user: string }) => (a.user < b.user ? -1 : 1)

/** What the server has of a room, as members. */
const roster = (room: string) =>
  world.server
    .roster(room)
    .map((member) => ({ ...member }))
    .sort(byUser)

/** What all should see of all, by the server; and what the server should have, by what they want. */
function check(people: readonly Person[]): void {
  for (const id of rooms) {
    const present = people.filter(({ wanted }) => {
      const of = wanted.get(id)
      return of && !of.observe && [...of.entries][0]?.health.get().ended === null
    })
    expect(roster(id).map(({ user }) => user)).toEqual([...new Set(present.map(({ user }) => user))].sort())
    for (const person of people) {
      const wanted = person.wanted.get(id)
      for (const room of wanted?.entries ?? []) {
        const health = room.health.get()
        if (health.ended !== null) {
          expect([room.count.get(), room.members.get(), room.self.get()]).toEqual([0, [], null])
          continue
        }
        expect(health).toMatchObject({ stale: false, settling: false, error: null })
        const full = room.mode.get() === 'full'
        expect([...room.members.get()].sort(byUser)).toEqual(full ? roster(id) : [])
        expect(room.others.get()).toEqual(room.members.get().filter(({ user }) => user !== person.user))
        expect(room.count.get()).toBe(roster(id).length)
        checkOwn(person, id, room)
      }
    }
  }
}

/** What is ours on the server is what we want to be, and we see what others say. */
function checkOwn({ user, name, page, wanted }: Person, id: string, room: Room): void {
  const { observe, data, status, selection } = wanted.get(id) as Wanted
  const ours = [...world.server.connections.values()].filter(
    ({ info }) => (info as { name: string }).name === name,
  )
  expect(ours).toHaveLength(1)
  const [own] = ours
  const signals = [...world.server.room(id).signals.values()].filter(({ kind }) => kind === 'selection')
  const [said, heard] = [true, false].map((mine) =>
    signals.filter(({ connection }) => (connection === own?.id) === mine),
  )
  const shown = [...room.signals('selection').get().values()]
  // A room that changes its mode says nothing of signals here.
  if (world.server.options.countsAbove > 2)
    expect(shown.map(({ connection, data }) => [connection, data]).sort()).toEqual(
      heard?.map(({ connection, data }) => [connection, data]).sort(),
    )
  expect(own?.leases.get(id)?.observe).toBe(observe)
  if (observe) return
  const person = page.document.hidden ? 'away' : 'idle'
  expect(own?.leases.get(id)).toMatchObject({ data, status: status ?? person })
  expect(own?.leases.get(id)?.data).toEqual(room.data.get())
  expect(said?.map(({ data }) => data)).toEqual(selection === null ? [] : [selection])
  if (room.mode.get() === 'full')
    expect(room.self.get()).toEqual(roster(id).find((member) => member.user === user))
}

test.each(Array.from({ length: seeds }, (_, i) => i + 1))('seed %i', async (seed) => {
  const random = newRandom(seed)
  world = new World(random() < 0.3 ? { countsAbove: 2, countsBelow: 2 } : {})
  slow(random)
  const people = [
    new Person('ana', 'websocket', random),
    new Person('ana', 'sse', random),
    new Person('ben', 'websocket', random),
    new Person('cleo', 'sse', random),
  ]
  for (let i = 0; i < 60; i++) {
    world.random = random()
    const person = people[Math.floor(random() * people.length)] as Person
    const chance = random()
    if (chance < 0.1) fate(random)
    else if (chance < 0.2) person.turn()
    else person.act()
    if (random() < 0.4) await world.pass(random() < 0.1 ? 12_000 * random() : 400 * random())
  }
  for (const person of people) if (person.away) person.turn()
  world.http.down = false
  await world.pass(quietMs)
  check(people)
  expect(world.errors).toEqual([])
  expect(people.flatMap(({ errors }) => errors.filter((error) => !/offline|forbidden/.test(error)))).toEqual(
    [],
  )
  for (const { client } of people) client.close()
  await world.pass(quietMs)
  expect(people.map(({ page }) => page.listeners)).toEqual(people.map(() => 0))
  expect(world.server.connections.size).toBe(0)
  world.server.stop()
  expect(vi.getTimerCount()).toBe(0)
})
