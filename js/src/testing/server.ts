import { tellWatching, Watching } from './watching.ts'

/*
 * A small Rollcall in memory: the shapes of the wire contract, for tests and for the design of the
 * pages. It decides like the real one (once per user, versions, close grace, lease) and nothing more.
 */

export interface FakeOptions {
  leaseMs?: number
  beatMs?: number
  graceMs?: number
  countsAbove?: number
  countsBelow?: number
  settlingMs?: number
}

/** Where a stream of frames goes. `pongs`: this client proves its life without script. */
export interface Port {
  send(frames: object[]): void
  end(code: number, frame: object | null): void
  pongs(): boolean
  /** Which connection this is, told before the first frame. */
  opened?(connection: FakeConnection): void
}

export interface FakeMember {
  user: string
  info: object
  status: string
  connections: number
  since: number
  data: object
}

export interface FakeSignal {
  user: string
  connection: string
  kind: string
  data: unknown
  docVersion?: unknown
  endsAt: number
}

interface Lease {
  status: string
  data: object
  observe: boolean
  at: number
}

export interface FakeConnection {
  id: string
  user: string
  info: object
  resume: string
  port: Port | null
  leases: Map<string, Lease>
  watching: Watching
  evidenceAt: number
  grace: ReturnType<typeof setTimeout> | null
}

interface FakeRoom {
  epoch: string
  version: number
  mode: 'full' | 'counts'
  members: Map<string, FakeMember>
  /** When each joined, as a number that rises. */
  order: Map<string, number>
  signals: Map<string, FakeSignal>
}

/** The time of a signal that names none; a selection lives as long as its connection is here. */
const lastingMs: Record<string, number> = { typing: 5_000, selection: Number.POSITIVE_INFINITY }

/** How long the signals of a connection that comes back go on unless they are said again. */
const againMs = 2_000

const ranks = ['away', 'idle', 'active']

export class FakeServer {
  readonly options: Required<FakeOptions>
  readonly connections = new Map<string, FakeConnection>()
  readonly rooms = new Map<string, FakeRoom>()
  /** Everything a client said, in order. */
  readonly said: { connection: string; type: string; [key: string]: unknown }[] = []
  epoch = 1
  #serial = 0
  #sweptAt = Date.now()
  #timers: ReturnType<typeof setInterval>[] = []

  constructor(options: FakeOptions = {}) {
    this.options = {
      leaseMs: 30_000,
      beatMs: 9_000,
      graceMs: 1_000,
      countsAbove: 200,
      countsBelow: 150,
      settlingMs: 0,
      ...options,
    }
  }

  /** Starts beats and the sweep. */
  start(): this {
    this.#timers = [setInterval(() => this.beat(), this.options.beatMs), setInterval(() => this.sweep(), 750)]
    // A test that forgets to stop it must not hang for ever.
    for (const timer of this.#timers) (timer as { unref?(): void }).unref?.()
    return this
  }

  stop(): void {
    for (const timer of this.#timers) clearInterval(timer)
    for (const { grace } of this.connections.values()) if (grace) clearTimeout(grace)
  }

  /** Opens or resumes a connection on a port and says `ready`. */
  open(user: string, info: object, resume: string | null, port: Port): FakeConnection {
    let connection = resume === null ? undefined : this.byResume(resume)
    if (connection && connection.user !== user) connection = undefined
    if (connection?.port) connection.port.end(4409, { type: 'bye', reason: 'replaced', reconnectMs: 0 })
    if (!connection) {
      const id = `c${++this.#serial}`
      connection = {
        id,
        user,
        info,
        resume: '',
        port: null,
        leases: new Map(),
        watching: new Watching(),
        evidenceAt: 0,
        grace: null,
      }
      this.connections.set(id, connection)
    }
    if (connection.grace) clearTimeout(connection.grace)
    connection.grace = null
    connection.watching = new Watching()
    // Signals belong to the stream: who comes back says them again.
    for (const { signals } of this.rooms.values()) {
      for (const signal of signals.values()) {
        if (signal.connection === connection.id) signal.endsAt = Math.min(signal.endsAt, Date.now() + againMs)
      }
    }
    connection.port = port
    connection.resume = `${connection.id}.${++this.#serial}.secret`
    connection.evidenceAt = Date.now()
    port.opened?.(connection)
    const { leaseMs, beatMs } = this.options
    const { id, resume: secret } = connection
    port.send([{ type: 'ready', connection: id, resume: secret, user, leaseMs, beatMs, now: Date.now() }])
    return connection
  }

  /** By any secret of the connection: an older one still opens. */
  byResume(resume: string): FakeConnection | undefined {
    return this.connections.get(resume.split('.')[0] ?? '')
  }

  join(connection: FakeConnection, room: string, ask: Record<string, unknown>): FakeMember | null {
    const had = connection.leases.get(room)
    connection.leases.set(room, {
      status: (ask.status as string) ?? had?.status ?? 'active',
      data: { ...had?.data, ...(ask.data as object) },
      observe: ask.observe === true && (had?.observe ?? true),
      at: Date.now(),
    })
    const held = this.room(room)
    const before = held.version
    this.refresh(room, null, connection)
    const since = ask.since as { epoch: string; version: number } | undefined
    const current = since?.epoch === held.epoch && since.version === before && before === held.version
    const resumed = { type: 'resumed', room, epoch: held.epoch, version: held.version }
    connection.port?.send(
      current ? [resumed, this.#signals(room, [...held.signals.values()], true)] : this.state(room),
    )
    return held.members.get(connection.user) ?? null
  }

  /** Many users enter at once, each by a connection that is always alive. */
  fill(room: string, users: readonly string[]): void {
    const silent: Port = { send: () => {}, end: () => {}, pongs: () => true }
    for (const user of users) {
      const lease = { status: 'active', data: {}, observe: false, at: Date.now() }
      this.open(user, { name: user }, null, silent).leases.set(room, lease)
    }
    this.refresh(room, null)
  }

  set(connection: FakeConnection, room: string, ask: Record<string, unknown>): FakeMember | null {
    const lease = connection.leases.get(room)
    if (!lease || lease.observe) return null
    if (ask.status) lease.status = ask.status as string
    if (ask.data) lease.data = ask.replace ? (ask.data as object) : { ...lease.data, ...(ask.data as object) }
    lease.at = Date.now()
    this.refresh(room, null)
    return this.room(room).members.get(connection.user) ?? null
  }

  signal(connection: FakeConnection, room: string, ask: Record<string, unknown>): boolean {
    if (connection.leases.get(room)?.observe !== false) return false
    const kind = String(ask.kind)
    const key = `${connection.id} ${kind}`
    const ttlMs = Number(ask.ttlMs ?? lastingMs[kind] ?? 30_000)
    const { id, user } = connection
    const signal = { user, connection: id, kind, data: ask.data ?? null, endsAt: Date.now() + ttlMs }
    const whole = ask.docVersion === undefined ? signal : { ...signal, docVersion: ask.docVersion }
    if (signal.data === null) this.room(room).signals.delete(key)
    else this.room(room).signals.set(key, whole)
    this.broadcast(room, this.#signals(room, [whole], false))
    return true
  }

  leave(connection: FakeConnection, room: string, reason = 'left'): void {
    this.#endSignals(room, (signal) => signal.connection === connection.id)
    if (connection.leases.delete(room)) this.refresh(room, reason)
  }

  /** A port is gone. `closed`: announced, so the grace runs; else the lease does. */
  gone(connection: FakeConnection, port: Port, closed: boolean): void {
    if (connection.port !== port) return
    connection.port = null
    if (closed) this.closing(connection)
  }

  closing(connection: FakeConnection): void {
    if (connection.grace) clearTimeout(connection.grace)
    connection.grace = setTimeout(() => this.forget(connection, 'closed'), this.options.graceMs)
  }

  forget(connection: FakeConnection, reason: string): void {
    if (connection.grace) clearTimeout(connection.grace)
    this.connections.delete(connection.id)
    connection.port = null
    const rooms = [...connection.leases.keys()]
    for (const room of rooms) this.#endSignals(room, (signal) => signal.connection === connection.id)
    connection.leases.clear()
    for (const room of rooms) this.refresh(room, reason)
  }

  /** Loses everything, as a process without state does. */
  restart(): void {
    this.epoch++
    for (const { port, grace } of this.connections.values()) {
      if (grace) clearTimeout(grace)
      port?.end(1006, null)
    }
    this.connections.clear()
    this.rooms.clear()
  }

  beat(): void {
    for (const connection of this.connections.values()) {
      const { port } = connection
      if (port === null) continue
      port.send([{ type: 'beat', n: ++this.#serial }])
      if (port.pongs()) connection.evidenceAt = Date.now()
    }
  }

  sweep(): void {
    // Like the lease clock of the real one: a pause of the machine empties no room.
    const pause = Math.max(0, Date.now() - this.#sweptAt - 2_000)
    this.#sweptAt = Date.now()
    for (const connection of this.connections.values()) connection.evidenceAt += pause
    for (const room of this.rooms.keys()) this.#endSignals(room, (signal) => signal.endsAt <= Date.now())
    for (const connection of [...this.connections.values()]) {
      if (Date.now() - connection.evidenceAt <= this.options.leaseMs) continue
      connection.port?.end(4504, { type: 'bye', reason: 'expired', reconnectMs: 0 })
      this.forget(connection, 'expired')
    }
  }

  room(id: string): FakeRoom {
    let room = this.rooms.get(id)
    if (!room) {
      room = {
        epoch: `e${this.epoch}`,
        version: 0,
        mode: 'full',
        members: new Map(),
        order: new Map(),
        signals: new Map(),
      }
      this.rooms.set(id, room)
    }
    return room
  }

  roster(id: string): FakeMember[] {
    return [...this.room(id).members.values()]
  }

  snapshot(id: string, type = 'snapshot'): object {
    const { epoch, version, mode, members } = this.room(id)
    const list = [...members.values()].sort((a, b) => a.since - b.since)
    const settling = this.options.settlingMs > 0 ? { settlingMs: this.options.settlingMs } : {}
    const who = mode === 'full' ? { members: list.reverse() } : { sample: list.slice(0, 12) }
    return { type, room: id, epoch, version, mode, count: members.size, ...who, ...settling }
  }

  /** All of a room: who is there, and the signals that live. Of no signals nothing need be said. */
  state(id: string): object[] {
    const live = [...this.room(id).signals.values()]
    return [this.snapshot(id), ...(live.length > 0 ? [this.#signals(id, live, true)] : [])]
  }

  broadcast(id: string, frame: object, except: FakeConnection | null = null): void {
    for (const connection of this.connections.values()) {
      if (connection !== except && connection.leases.has(id)) connection.port?.send([frame])
    }
  }

  /** Works the members out anew and tells what changed. */
  refresh(id: string, reason: string | null, except: FakeConnection | null = null): void {
    const room = this.room(id)
    const members = this.#members(id, room)
    const join = [...members.values()].filter(({ user }) => !room.members.has(user))
    const leave = [...room.members.keys()]
      .filter((user) => !members.has(user))
      .map((user) => ({ user, reason: reason ?? 'left' }))
    const update = [...members.values()].filter((member) => {
      const before = room.members.get(member.user)
      return before && JSON.stringify(before) !== JSON.stringify(member)
    })
    if (join.length + leave.length + update.length === 0) return
    room.members = members
    for (const { user } of join) room.order.set(user, ++this.#serial)
    for (const { user } of leave) room.order.delete(user)
    const prev = room.version++
    const counts =
      room.mode === 'full'
        ? members.size > this.options.countsAbove
        : members.size >= this.options.countsBelow
    const mode = counts ? 'counts' : 'full'
    const count = members.size
    if (mode !== room.mode) {
      room.mode = mode
      this.broadcast(id, this.snapshot(id, 'mode'), except)
    } else if (mode === 'counts') {
      this.broadcast(id, { type: 'count', room: id, version: room.version, count }, except)
    } else {
      const lists = Object.entries({ join, update, leave }).filter(([, list]) => list.length > 0)
      this.broadcast(
        id,
        { type: 'diff', room: id, prev, version: room.version, count, ...Object.fromEntries(lists) },
        except,
      )
    }
    for (const connection of this.connections.values()) tellWatching(this, connection, id)
  }

  /** The status of a user over all rooms; null = offline. */
  statusOf(user: string): string | null {
    const statuses = [...this.rooms.values()].flatMap(({ members }) => members.get(user)?.status ?? [])
    return statuses.sort((a, b) => ranks.indexOf(b) - ranks.indexOf(a))[0] ?? null
  }

  #endSignals(room: string, which: (signal: FakeSignal) => boolean): void {
    const { signals } = this.room(room)
    const ended: FakeSignal[] = []
    for (const [key, signal] of signals) {
      if (!which(signal)) continue
      signals.delete(key)
      ended.push({ ...signal, data: null })
    }
    if (ended.length > 0) this.broadcast(room, this.#signals(room, ended, false))
  }

  #signals(room: string, signals: FakeSignal[], full: boolean): object {
    const said = signals.map(({ endsAt, data, ...signal }) => {
      if (data === null) return { ...signal, data, ttlMs: 0 }
      return { ...signal, data, ...(Number.isFinite(endsAt) ? { ttlMs: endsAt - Date.now() } : {}) }
    })
    return { type: 'signals', room, signals: said, ...(full ? { full } : {}) }
  }

  #members(id: string, room: FakeRoom): Map<string, FakeMember> {
    const leases = [...this.connections.values()]
      .filter(({ leases }) => leases.get(id)?.observe === false)
      .map((connection) => ({ ...connection, lease: connection.leases.get(id) as Lease }))
      .sort((a, b) => a.lease.at - b.lease.at)
    const members = new Map<string, FakeMember>()
    for (const { user, info, lease } of leases) {
      const before = members.get(user)
      const status =
        before && ranks.indexOf(before.status) > ranks.indexOf(lease.status) ? before.status : lease.status
      const since = room.members.get(user)?.since ?? Date.now()
      members.set(user, {
        user,
        info,
        status,
        connections: (before?.connections ?? 0) + 1,
        since,
        data: lease.data,
      })
    }
    return members
  }
}
