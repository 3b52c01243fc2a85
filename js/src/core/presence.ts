import type { Connection, ConnectionState } from './connection.ts'
import { Desired } from './desired.ts'
import { Emitter } from './emitter.ts'
import type { Environment } from './environment.ts'
import { RollcallError, textOf } from './error.ts'
import { type Mode, type RosterFrame, toList, toMember, type UnreadFrame } from './frame.ts'
import type { Lazy } from './lazy.ts'
import { type JsonObject, type LeaveReason, type Member, sameJson, sameList } from './member.ts'
import { parts } from './parts.ts'
import type { RoomUpkeep } from './roomupkeep.ts'
import { type Change, emptyRoster, type Roster, reduce, type Step } from './roster.ts'
import type { Signals, SignalTable } from './signals.ts'
import { type Readable, Store } from './store.ts'
import type { Answer, Entry, Message, Stream } from './stream.ts'
import type { Windows } from './windows.ts'

export interface Health {
  /** What you see may be old: not connected, no fresh state yet, or the server's store is in trouble. */
  readonly stale: boolean
  /** The server has just lost its memory: joins show, leaves wait. */
  readonly settling: boolean
  readonly store: 'ok' | 'degraded'
  /** How old the server's view may be. */
  readonly staleMs: number
  /** Why this room cannot be entered, or null. */
  readonly error: RollcallError | null
  /** Why the server ended our lease here (kicked, ...), or null. Entering again starts anew. */
  readonly ended: string | null
}

export interface RoomEvents {
  join: { readonly member: Member }
  update: { readonly member: Member; readonly previous: Member }
  leave: { readonly member: Member; readonly reason: LeaveReason | null }
  mode: { readonly mode: Mode }
  count: { readonly count: number }
  ended: { readonly reason: string }
  error: { readonly error: RollcallError }
}

export interface RoomStores {
  /** Your own member, as the server has it; null for observers and before the first answer. */
  readonly self: Readable<Member | null>
  /** The members but you, by name. Empty in counts mode. */
  readonly others: Readable<readonly Member[]>
  readonly members: Readable<readonly Member[]>
  /** Counts mode: some of the longest present. */
  readonly sample: Readable<readonly Member[]>
  readonly count: Readable<number>
  /** What you have set here yourself, at once; `self.data` is what the server shows. */
  readonly data: Readable<JsonObject>
  /** Null before the first snapshot. */
  readonly mode: Readable<Mode | null>
  readonly connection: Readable<ConnectionState>
  readonly health: Readable<Health>
}

/** What is fetched for a room when it is first needed. */
interface Extras {
  signals: SignalTable
  windows: Windows
  upkeep: RoomUpkeep
}

const roomParts: { readonly [K in keyof Extras]: Lazy<{ ofRoom(presence: Presence): Extras[K] }> } = parts

const silence: Signals = new Map()

export const healthy: Health = {
  stale: true,
  settling: false,
  store: 'ok',
  staleMs: 0,
  error: null,
  ended: null,
}

function newStores({ state, options }: Connection) {
  const store = <T>(value: T) => new Store(value, options.environment.report)
  return {
    self: store<Member | null>(null),
    others: store<readonly Member[]>([]),
    members: store<readonly Member[]>([]),
    sample: store<readonly Member[]>([]),
    count: store(0),
    data: store<JsonObject>({}),
    mode: store<Mode | null>(null),
    connection: state as RoomStores['connection'],
    health: store(healthy),
  } satisfies RoomStores
}

/** One room of a client: joins what is wanted (Desired) to what is known (Roster), and shows it. */
export class Presence {
  readonly room: string
  readonly connection: Connection
  readonly environment: Environment
  readonly desired: Desired
  readonly events: Emitter<RoomEvents>
  readonly stores: ReturnType<typeof newStores>
  /** The stores of those who look on at signals, by kind. */
  readonly signalStores = new Map<string, Store<Signals>>()
  /** How many entries share this one. */
  entries = 0
  roster: Roster = emptyRoster
  /** What we hold is the truth, as far as this stream has said. */
  fresh = false
  /** The stream is known to have taken us in: it can be asked for more. */
  entered = false
  /** Not wanted: not yet, or the server ended our lease here, or we left. */
  ended = true
  #changes: Change[] = []
  /** Our own member from the answers to join and set: counts mode does not name us. */
  #own: Member | null = null
  /** The stream that was told to join this room. */
  #stream: Stream | null = null
  readonly #extras: Partial<Extras> = {}

  constructor(room: string, observe: boolean, connection: Connection) {
    this.room = room
    this.connection = connection
    this.environment = connection.options.environment
    this.desired = new Desired(observe)
    this.events = new Emitter(this.environment.report)
    this.stores = newStores(connection)
  }

  /** What a new stream has to know. */
  entry(): Entry {
    const { mode, epoch, version } = this.roster
    const claims = mode && !this.#extras.upkeep?.asked
    return {
      room: this.room,
      wish: this.desired.wish(this.connection.status),
      since: claims ? { epoch, version } : null,
    }
  }

  /** Enters on an open stream. */
  async join(stream: Stream, resumed: boolean): Promise<void> {
    this.fresh = false
    this.entered = false
    this.#stream = stream
    const asked = stream.join(this.entry(), resumed)
    this.use('upkeep', (upkeep) => upkeep.expect())
    this.#extras.signals?.renew()
    const answer = await asked
    this.answered(stream, answer)
    if (answer.ok && stream === this.told) this.#extras.windows?.renew()
  }

  /** The room is wanted. True if it has to be joined: for the first time, after an end, or as a member now. */
  want(observe: boolean): boolean {
    const { ended } = this
    if (ended) {
      this.ended = false
      this.#tell({ ended: null, error: null })
    }
    return (!observe && this.desired.present()) || ended
  }

  set(value: unknown, replace: boolean): void {
    this.desired.set(value, replace)
    const { data } = this.desired
    const shown = this.stores.data
    if (data !== null && !sameJson(data, shown.get())) shown.set(data)
    this.changed()
  }

  /** What we want to be here may have changed: the stream is told, now or when the upkeep is here. */
  changed(): void {
    this.#extras.upkeep?.tell()
  }

  /** Takes a frame in; `commit` shows it, so that frames of one message show as one change. */
  apply(frame: RosterFrame | UnreadFrame): void {
    const { signals, windows, upkeep } = this.#extras
    if ('fields' in frame) {
      const { type, fields } = frame
      if (type !== 'signals') windows?.apply(type, fields)
      // Of nothing, nothing need be known.
      else if (signals || toList(fields.signals).length > 0)
        this.use('signals', (table) => table.apply(fields))
      return
    }
    const isState = 'mode' in frame
    const asked = upkeep?.asked === true
    const before = this.roster
    const step = reduce(before, frame, this.environment.now(), isState && asked)
    const { gap } = step
    this.take(step)
    if (gap !== null) {
      if (!upkeep) this.fresh = false
      this.use('upkeep', (upkeep) => upkeep.repair(gap))
    } else if (isState || (!asked && (step.roster !== before || frame.type === 'resumed'))) {
      if (isState) signals?.replaced()
      // A diff that fits proves as much as a snapshot, unless what we hold is already in doubt.
      this.fresh = true
      this.entered = true
      upkeep?.done()
    }
  }

  take({ roster, changes }: Step): void {
    this.roster = roster
    this.#changes.push(...changes)
    for (const { type, member } of changes) if (type === 'leave') this.#extras.signals?.left(member.user)
  }

  commit(): void {
    const { signals, upkeep } = this.#extras
    upkeep?.check()
    const { list, sample, count, mode } = this.roster
    const { stores, events } = this
    const user = this.connection.who?.user
    const own = mode === 'counts' ? [...sample, this.#own] : list
    const before = stores.mode.get()
    const tells = [
      stores.count.put(count),
      stores.members.put(list),
      stores.others.put(
        sameList(
          stores.others.get(),
          list.filter((member) => member.user !== user),
        ),
      ),
      stores.self.put(own.find((member) => member?.user === user) ?? null),
      stores.sample.put(sample),
      stores.mode.put(mode),
      stores.health.put(this.#health({})),
      ...(signals?.show() ?? []),
    ]
    const changes = this.#changes
    this.#changes = []
    for (const change of changes) events.emit(change.type, change as never)
    if (mode && before && before !== mode) events.emit('mode', { mode })
    if (mode && tells[0]) events.emit('count', { count })
    for (const tell of tells) tell?.()
  }

  /** Does what a throttled timer has left lying. */
  poke(): void {
    this.use('upkeep', () => {
      for (const extra of Object.values(this.#extras)) extra.poke()
    })
  }

  setStore(store: 'ok' | 'degraded', staleMs: number): void {
    this.#tell({ store, staleMs })
  }

  /** The connection is down: what is shown stays, and is called old. */
  down(error: RollcallError | null): void {
    this.fresh = false
    this.#stream = null
    for (const extra of Object.values(this.#extras)) extra.down()
    this.#tell({ error })
    if (error !== null) this.fail(error)
  }

  /** What others signal, by kind: the same store for the same kind. */
  signalsOf(kind: string): Store<Signals> {
    const known = this.signalStores.get(kind)
    if (known !== undefined) return known
    const store = new Store<Signals>(silence, this.environment.report)
    this.signalStores.set(kind, store)
    this.use('signals', (table) => table.tell())
    return store
  }

  /** Hands over what is fetched when it is first needed: at once, if it is here. */
  use<K extends keyof Extras>(name: K, fn: (extra: Extras[K]) => void): void {
    const part = roomParts[name]
    const late = part.value === null
    part.use(
      ({ ofRoom }) => {
        const extra: Extras[K] = this.#extras[name] ?? ofRoom(this)
        this.#extras[name] = extra
        fn(extra)
        if (late) this.commit()
      },
      (error) => {
        if (name !== 'upkeep') {
          this.fail(
            error instanceof RollcallError ? error : new RollcallError('unreachable', textOf(error), true),
          )
        }
      },
    )
  }

  fail(error: RollcallError): void {
    this.events.emit('error', { error })
  }

  isPresent(user: string): boolean {
    return this.roster.mode === 'counts' || this.roster.members.has(user)
  }

  /** The open stream, if it was told of us here. */
  get told(): Stream | null {
    const { stream } = this.connection
    return stream === this.#stream && !this.ended ? stream : null
  }

  /** The stream that was told of us here, if we are a member. */
  get current(): Stream | null {
    return this.desired.observe ? null : this.told
  }

  /** Null where there is nobody to tell yet: a new stream is told when it took us in. */
  ask(message: Message): Promise<Answer> | null {
    return (this.entered && this.told?.ask(message)) || null
  }

  /** The server said yes or no to what we want to be here. */
  answered(stream: Stream, answer: Answer): void {
    if (this.connection.stream !== stream || this.ended) return
    if (answer.ok) {
      this.entered = true
      this.#own = toMember(answer.fields.member) ?? this.#own
      if (this.stores.health.get().error !== null) this.#tell({ error: null })
      if (this.roster.mode === 'counts') this.commit()
    } else if (answer.error.code !== 'closed') {
      if (!answer.error.retry) this.#extras.upkeep?.giveUp()
      this.#tell({ error: answer.error })
      this.fail(answer.error)
    }
  }

  /** The server ended our lease here; nothing more comes of this room. */
  end(reason: string): void {
    this.close()
    this.#tell({ ended: reason })
    this.events.emit('ended', { reason })
  }

  /** We left: forget everything. */
  close(): void {
    this.ended = true
    this.fresh = false
    this.roster = emptyRoster
    this.#own = null
    this.#changes = []
    for (const extra of Object.values(this.#extras)) extra.clear()
    this.commit()
  }

  #tell(change: Partial<Health>): void {
    this.stores.health.set(this.#health(change))
  }

  #health(change: Partial<Health>): Health {
    const before = this.stores.health.get()
    const next = { ...before, ...change, settling: this.roster.settledAt !== null }
    next.stale = !this.fresh || next.store === 'degraded'
    return (Object.keys(next) as (keyof Health)[]).every((key) => next[key] === before[key]) ? before : next
  }
}
