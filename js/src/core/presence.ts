import type { Connection, ConnectionState } from './connection.ts'
import { Desired } from './desired.ts'
import { Emitter } from './emitter.ts'
import type { Environment } from './environment.ts'
import { RollcallError, textOf } from './error.ts'
import { type Mode, type RosterFrame, toList, toMember, type UnreadFrame } from './frame.ts'
import { type JsonObject, type LeaveReason, type Member, sameJson, sameList } from './member.ts'
import { parts } from './parts.ts'
import type { Room } from './room.ts'
import { type Change, emptyRoster, type Roster, reduce, type Step, settle } from './roster.ts'
import type { Signals, SignalTable } from './signals.ts'
import { type Readable, Store } from './store.ts'
import type { Answer, Entry, Message, Stream } from './stream.ts'
import { Throttle } from './throttle.ts'
import { Timer } from './timer.ts'
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

const setEveryMs = 100
/** A room that was joined, or a snapshot that was asked for, answers well within this. */
const answerMs = 3_000
/** A replica is at most a second behind. */
const behindMs = 1_200
/** However wrong a server may be, it is not asked more often than this. */
const askEveryMs = 1_000

const silence: Signals = new Map()

export const healthy: Health = {
  stale: true,
  settling: false,
  store: 'ok',
  staleMs: 0,
  error: null,
  ended: null,
}

/** One room of a client: joins what is wanted (Desired) to what is known (Roster), and shows it. */
export class Presence implements RoomStores {
  readonly room: string
  readonly desired: Desired
  readonly events: Emitter<RoomEvents>
  readonly self: Store<Member | null>
  readonly others: Store<readonly Member[]>
  readonly members: Store<readonly Member[]>
  readonly sample: Store<readonly Member[]>
  readonly count: Store<number>
  readonly data: Store<JsonObject>
  readonly mode: Store<Mode | null>
  readonly health: Store<Health>
  readonly connection: Readable<ConnectionState>
  /** The stores of those who look on at signals, by kind. */
  readonly signalStores = new Map<string, Store<Signals>>()
  /** The entries that share this one. */
  readonly entries = new Set<Room>()
  readonly environment: Environment
  readonly #connection: Connection
  readonly #throttle: Throttle
  #signals: SignalTable | null = null
  #windows: Windows | null = null
  #roster: Roster = emptyRoster
  #changes: Change[] = []
  /** Our own member from the answers to join and set: counts mode does not name us. */
  #own: Member | null = null
  /** What we hold is the truth, as far as this stream has said. */
  #fresh = false
  /** A snapshot is on its way: the next one is right whatever its version. */
  #asked = false
  #askedAt = Number.NEGATIVE_INFINITY
  /** The stream that was told to join this room, and whether it is known to have worked. */
  #stream: Stream | null = null
  #entered = false
  /** The stream that took us in: it can be asked for more. */
  #joined: Stream | null = null
  readonly #repairTimer: Timer
  readonly #settleTimer: Timer
  #ended = false

  constructor(room: string, observe: boolean, connection: Connection) {
    const { environment } = connection.options
    const { report } = environment
    this.room = room
    this.desired = new Desired(observe)
    this.connection = connection.state
    this.environment = environment
    this.#connection = connection
    this.#throttle = new Throttle(environment, setEveryMs, () => this.#flush())
    this.#repairTimer = new Timer(environment)
    this.#settleTimer = new Timer(environment)
    this.events = new Emitter(report)
    this.self = new Store<Member | null>(null, report)
    this.others = new Store<readonly Member[]>([], report)
    this.members = new Store<readonly Member[]>([], report)
    this.sample = new Store<readonly Member[]>([], report)
    this.count = new Store(0, report)
    this.data = new Store<JsonObject>({}, report)
    this.mode = new Store<Mode | null>(null, report)
    this.health = new Store(healthy, report)
  }

  /** True while the room is wanted: not after the server ended our lease in it. */
  get wanted(): boolean {
    return !this.#ended
  }

  /** What a new stream has to know. */
  entry(): Entry {
    const { known, epoch, version } = this.#roster
    const claims = known && !this.#asked
    return {
      room: this.room,
      wish: this.desired.wish(this.#connection.status),
      since: claims ? { epoch, version } : null,
    }
  }

  /** Enters on an open stream. */
  async join(stream: Stream, resumed: boolean): Promise<void> {
    this.#fresh = false
    this.#entered = false
    this.#joined = null
    this.#stream = stream
    this.#expect(answerMs)
    const asked = stream.join(this.entry(), resumed)
    this.#signals?.renew()
    const answer = await asked
    this.#answered(stream, answer)
    if (!answer.ok || stream !== this.#told()) return
    this.#joined = stream
    this.#windows?.renew()
  }

  /** The room is wanted again after the server ended our lease in it. */
  revive(): void {
    this.#ended = false
    this.health.set(this.#health({ ended: null, error: null }))
  }

  set(value: unknown, replace: boolean): void {
    this.desired.set(value, replace)
    const { data } = this.desired
    const tell = data === null || sameJson(data, this.data.get()) ? undefined : this.data.put(data)
    // Before the first join there is nobody to tell: the join tells the whole.
    if (this.#stream !== null) this.#throttle.request()
    tell?.()
  }

  /** The status may have changed: chosen, or by the activity of the page. */
  statusChanged(): void {
    if (!this.desired.observe) this.#throttle.request()
  }

  /** Takes a frame in; `commit` shows it, so that frames of one message show as one change. */
  apply(frame: RosterFrame | UnreadFrame): void {
    if (this.#ended) return
    if ('fields' in frame) {
      this.#unread(frame)
      return
    }
    const isState = frame.type === 'snapshot' || frame.type === 'mode'
    const before = this.#roster
    const step = reduce(before, frame, this.environment.now(), isState && this.#asked)
    this.#take(step)
    if (step.gap !== null) {
      this.#repair(step.gap === 'behind' ? behindMs : 0)
    } else if (isState || (!this.#asked && (step.roster !== before || frame.type === 'resumed'))) {
      if (isState) this.#signals?.replaced()
      // A diff that fits proves as much as a snapshot, unless what we hold is already in doubt.
      this.#fresh = true
      this.#entered = true
      this.#asked = false
      this.#repairTimer.clear()
    }
  }

  commit(): void {
    this.#throttle.poke()
    // While we are cut off, nobody can tell who came back: the next snapshot decides.
    if (this.#fresh) this.#take(settle(this.#roster, this.environment.now()))
    const { known, members, list, sample, count, mode } = this.#roster
    const { user } = this.#connection
    const named = user === null ? null : (members.get(user) ?? sample.find((m) => m.user === user) ?? null)
    const self = named ?? (mode === 'counts' && this.#own?.user === user ? this.#own : null)
    const before = this.mode.get()
    const tells = [
      this.count.put(count),
      this.members.put(list),
      this.others.put(
        sameList(
          this.others.get(),
          list.filter((member) => member.user !== user),
        ),
      ),
      this.self.put(self),
      this.sample.put(sample),
      this.mode.put(known ? mode : null),
      this.health.put(this.#health()),
      ...(this.#signals?.show() ?? []),
    ]
    const changes = this.#changes
    this.#changes = []
    for (const change of changes) this.events.emit(change.type, change as never)
    if (known && before !== null && before !== mode) this.events.emit('mode', { mode })
    if (known && tells[0]) this.events.emit('count', { count })
    for (const tell of tells) tell?.()
    this.#settleLater()
  }

  /** Sends what a throttled timer has left lying. */
  poke(): void {
    this.#throttle.poke()
    this.#signals?.poke()
    this.#windows?.poke()
  }

  setStore(store: 'ok' | 'degraded', staleMs: number): void {
    this.health.set(this.#health({ store, staleMs }))
  }

  /** The connection is down: what is shown stays, and is called old. */
  down(error: RollcallError | null): void {
    this.#fresh = false
    this.#stream = null
    this.#repairTimer.clear()
    this.#settleTimer.clear()
    this.#throttle.cancel()
    this.#signals?.down()
    this.#windows?.down()
    this.health.set(this.#health({ error }))
    if (error !== null) this.fail(error)
  }

  /** What others signal, by kind: the same store for the same kind. */
  signalsOf(kind: string): Store<Signals> {
    const known = this.signalStores.get(kind)
    if (known !== undefined) return known
    const store = new Store<Signals>(silence, this.environment.report)
    this.signalStores.set(kind, store)
    this.withSignals((table) => table.tell())
    return store
  }

  /** Hands over the signals of this room, once their code is here. */
  withSignals(fn: (table: SignalTable) => void): void {
    const late = parts.signals.value === null
    parts.signals.use(({ SignalTable }) => {
      this.#signals ??= new SignalTable(this)
      fn(this.#signals)
      if (late) this.#signals.tell()
    }, this.#missing)
  }

  /** Hands over the pages and contacts of this room, once their code is here. */
  withWindows(fn: (windows: Windows) => void): void {
    parts.windows.use(({ Windows }) => {
      this.#windows ??= new Windows(this)
      fn(this.#windows)
    }, this.#missing)
  }

  fail(error: RollcallError): void {
    this.events.emit('error', { error })
  }

  get connectionId(): string | null {
    return this.#connection.id
  }

  isPresent(user: string): boolean {
    return this.#roster.mode === 'counts' || this.#roster.members.has(user)
  }

  /** The stream that was told of us here, if we are a member. */
  get current(): Stream | null {
    return this.desired.observe ? null : this.#told()
  }

  /** Null where there is nobody to tell yet: a new stream is told when it took us in. */
  ask(message: Message): Promise<Answer> | null {
    const stream = this.#told()
    return stream === null || stream !== this.#joined ? null : stream.ask(message)
  }

  /** The server ended our lease here; nothing more comes of this room. */
  end(reason: string): void {
    this.#clear()
    this.#ended = true
    this.health.set(this.#health({ ended: reason }))
    this.events.emit('ended', { reason })
  }

  /** We left: forget everything. */
  close(): void {
    this.#clear()
    this.#ended = true
  }

  #unread({ type, fields }: UnreadFrame): void {
    if (type !== 'signals') {
      this.#windows?.apply(type, fields)
    } else if (this.#signals !== null || toList(fields.signals).length > 0) {
      // Of nothing, nothing need be known.
      this.withSignals((table) => table.apply(fields))
    }
  }

  #clear(): void {
    this.#repairTimer.clear()
    this.#throttle.cancel()
    this.#settleTimer.clear()
    this.#signals?.clear()
    this.#windows?.down()
    this.#roster = emptyRoster
    this.#own = null
    this.#asked = false
    this.#fresh = false
    this.#changes = []
    this.commit()
  }

  #flush(): void {
    const stream = this.current
    // Without a stream nothing is lost: the next one is told the whole.
    if (stream === null) return
    const change = this.desired.take(this.#connection.status)
    if (change !== null)
      void stream
        .ask({ type: 'set', room: this.room, ...change })
        .then((answer) => this.#answered(stream, answer))
  }

  #told(): Stream | null {
    const stream = this.#connection.stream
    return stream === this.#stream && !this.#ended ? stream : null
  }

  readonly #missing = (error: unknown): void => {
    this.fail(error instanceof RollcallError ? error : new RollcallError('unreachable', textOf(error), true))
  }

  #answered(stream: Stream, answer: Answer): void {
    if (this.#connection.stream !== stream || this.#ended) return
    if (answer.ok) {
      this.#entered = true
      this.#own = toMember(answer.fields.member) ?? this.#own
      if (this.health.get().error !== null) this.health.set(this.#health({ error: null }))
      if (this.#roster.mode === 'counts') this.commit()
      return
    }
    if (answer.error.code === 'closed') return
    if (!answer.error.retry) this.#repairTimer.clear()
    this.health.set(this.#health({ error: answer.error }))
    this.fail(answer.error)
  }

  #take(step: Step): void {
    this.#roster = step.roster
    this.#changes.push(...step.changes)
    for (const change of step.changes) if (change.type === 'leave') this.#signals?.left(change.member.user)
  }

  /** Fetches the state anew after `ms`, unless it comes by itself or is on its way already. */
  #repair(ms: number): void {
    if (this.#asked && this.#repairTimer.isSet) return
    const wait = Math.max(ms, this.#askedAt + askEveryMs - this.environment.now())
    if (wait <= 0) this.#ask()
    else this.#expect(wait)
  }

  #ask(): void {
    const stream = this.#connection.stream
    if (stream === null) return
    this.#asked = true
    this.#askedAt = this.environment.now()
    this.#fresh = false
    if (stream.snapshot(this.room)) this.#expect(answerMs)
    else this.#connection.reopen()
  }

  #expect(ms: number): void {
    this.#repairTimer.set(ms, () => {
      const { stream } = this.#connection
      // A join that was refused for now, or never answered, is made again; else only the state is missing.
      if (stream !== null && !this.#entered) void this.join(stream, true)
      else this.#ask()
    })
  }

  #settleLater(): void {
    const { settledAt } = this.#roster
    if (settledAt === null || !this.#fresh || this.#settleTimer.isSet) return
    this.#settleTimer.set(Math.max(0, settledAt - this.environment.now()), () => this.commit())
  }

  #health(change: Partial<Health> = {}): Health {
    const before = this.health.get()
    const next = { ...before, ...change, settling: this.#roster.settledAt !== null }
    next.stale = !this.#fresh || next.store === 'degraded'
    const same = (Object.keys(next) as (keyof Health)[]).every((key) => next[key] === before[key])
    return same ? before : next
  }
}
