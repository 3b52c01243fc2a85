import type { Environment } from './environment.ts'
import { invalid, type RollcallError } from './error.ts'
import { isRaw, positive, type Raw, toList } from './frame.ts'
import { type Json, sameJson } from './member.ts'
import type { Store } from './store.ts'
import type { Stream } from './stream.ts'
import { Throttle } from './throttle.ts'

/*
 * Signals of one room: the newest value of each kind of each connection, for a short time.
 *
 *   in    `full` replaces everything; else a value puts, null ends. Each has its own time, which
 *         runs here too: a lost end is no end that never comes. A value says nothing of who is here:
 *         it is shown while its user is a member, and waits a moment if it came before the join.
 *   out   at most twenty a second, the newest always. What still lives is said again on a new stream,
 *         since the server keeps signals with the stream.
 */

export interface Signal {
  readonly user: string
  readonly connection: string
  readonly kind: string
  /** Set by that client: untrusted. */
  readonly data: Json
  /** The version of the document that `data` speaks of, as given by that client, or null. */
  readonly docVersion: number | string | null
  /** When it came, by our own clock. */
  readonly at: number
}

export interface SignalOptions {
  readonly docVersion?: number | string
  /** After this long without another value it is over; left out, the server decides by the kind. */
  readonly ttlMs?: number
}

/** What goes out. */
interface SignalChange extends SignalOptions {
  readonly kind: string
  readonly data: Json
}

/** By connection. */
export type Signals = ReadonlyMap<string, Signal>

/** The room that the signals are of. */
export interface SignalsHost {
  readonly room: string
  readonly environment: Environment
  /** The stores of those who look on, by kind: made where they are asked for. */
  readonly signalStores: ReadonlyMap<string, Store<Signals>>
  /** The stream that knows us here as a member, if there is one. */
  readonly current: Stream | null
  /** Our own connection, whose signals we know already. */
  readonly connection: { readonly who: { readonly connection: string } | null }
  /** True where members have no names: then everyone is taken as present. */
  isPresent(user: string): boolean
  fail(error: RollcallError): void
}

/** What one connection says; `data` null = no longer. */
interface Said {
  readonly user: string
  readonly connection: string
  readonly kind: string
  readonly data: Json
  readonly docVersion: number | string | null
  /** The time left; null = until its connection leaves. */
  readonly ttlMs: number | null
}

interface Live extends Signal {
  endsAt: number
}

const everyMs = 50
const maxKinds = 8
/** A signal may overtake the join of its user, but not by more than this. */
const overtakeMs = 1_000
/** Within the server's time for typing, so that it ends there too if we fall silent. */
const typingMs = 3_000
const typingEveryMs = 1_000

/** How long the server keeps a signal that names no time: a selection until we leave. */
const lastingMs: ReadonlyMap<string, number> = new Map([
  ['typing', 5_000],
  ['selection', Number.POSITIVE_INFINITY],
])
const otherMs = 30_000

/** What there is of a kind that nobody says. */
const none: Signals = new Map()

export class SignalTable {
  readonly #host: SignalsHost
  readonly #throttle: Throttle
  readonly #typing: Throttle
  /** By kind, then connection. */
  readonly #live = new Map<string, Map<string, Live>>()
  /** What lived before it was replaced, so that what is said again keeps its identity. */
  #former = new Map<string, Map<string, Live>>()
  readonly #own = new Map<string, { readonly change: SignalChange; readonly endsAt: number }>()
  readonly #waiting = new Set<string>()
  #sending = false
  /** The stream that was asked whether we may signal here. */
  #asked: Stream | null = null
  #timer: unknown = null

  constructor(host: SignalsHost) {
    this.#host = host
    this.#throttle = new Throttle(host.environment, everyMs, () => this.#flush())
    this.#typing = new Throttle(host.environment, typingEveryMs, () => {
      this.set('typing', true, { ttlMs: typingMs })
    })
  }

  /** `data` has been checked. Throws where there are too many kinds. */
  set(kind: string, data: Json, options: SignalOptions): void {
    if (data === null && !this.#own.has(kind)) return
    if (!this.#own.has(kind) && this.#own.size >= maxKinds) this.#forget()
    if (!this.#own.has(kind) && this.#own.size >= maxKinds) {
      throw invalid(`more than ${maxKinds} kinds of signals`, 'too_large')
    }
    const { docVersion, ttlMs } = options
    const change = {
      kind,
      data,
      ...(docVersion === undefined ? {} : { docVersion }),
      ...(ttlMs === undefined ? {} : { ttlMs }),
    }
    const lastsMs = ttlMs ?? lastingMs.get(kind) ?? otherMs
    this.#own.set(kind, { change, endsAt: this.#host.environment.now() + lastsMs })
    this.#waiting.add(kind)
    this.#throttle.request()
  }

  /** A key was hit: said at most once a second, and over by itself; false ends it at once. */
  typing(on: boolean): void {
    if (on) {
      this.#typing.request()
      return
    }
    this.#typing.reset()
    this.set('typing', null, {})
  }

  /** A new stream knows nothing of what we said. */
  renew(): void {
    this.#sending = false
    this.#forget()
    for (const [kind, { change }] of this.#own) if (change.data !== null) this.#waiting.add(kind)
    if (this.#waiting.size > 0) this.#throttle.request()
  }

  /** Takes a `signals` frame in; `full` = these are all that live. */
  apply(fields: Raw): void {
    const now = this.#host.environment.now()
    const full = fields.full === true
    if (full) this.replaced()
    const before = full ? this.#former : this.#live
    for (const said of toSignals(fields.signals)) {
      this.#put(said, before.get(said.kind)?.get(said.connection), now)
    }
  }

  /** A snapshot replaces everything known; if anything lives, `full` says so right after it. */
  replaced(): void {
    if (this.#live.size > 0) this.#former = new Map(this.#live)
    this.#live.clear()
  }

  /** Whoever left takes their signals along; what comes late creates nobody. */
  left(user: string): void {
    for (const of of this.#live.values()) {
      for (const [connection, signal] of of) if (signal.user === user) of.delete(connection)
    }
  }

  /** Puts what is to be seen into the stores; returns the calls that tell of it. */
  show(): (() => void)[] {
    this.#former.clear()
    const now = this.#host.environment.now()
    let next = Number.POSITIVE_INFINITY
    const tells: (() => void)[] = []
    for (const kind of new Set([...this.#live.keys(), ...this.#host.signalStores.keys()])) {
      const { seen, changesAt } = this.#visible(kind, now)
      next = Math.min(next, changesAt)
      const store = this.#host.signalStores.get(kind)
      if (store === undefined || sameSignals(store.get(), seen)) continue
      const tell = store.put(seen)
      if (tell) tells.push(tell)
    }
    this.#expect(next, now)
    return tells
  }

  poke(): void {
    this.#throttle.poke()
    this.#typing.poke()
  }

  /** The stream is gone. What others said runs out by itself. */
  down(): void {
    this.#throttle.cancel()
  }

  /** We left: nobody is seen, and nothing is said. */
  clear(): void {
    this.#live.clear()
    this.#own.clear()
    this.#waiting.clear()
    this.#throttle.cancel()
    this.#typing.reset()
    this.#clearTimer()
  }

  tell(): void {
    for (const tell of this.show()) tell()
  }

  /** What is to be seen of a kind, and when that may change by itself. What is over is forgotten. */
  #visible(kind: string, now: number): { readonly seen: Signals; readonly changesAt: number } {
    const of = this.#live.get(kind)
    const seen = new Map<string, Signal>()
    let changesAt = Number.POSITIVE_INFINITY
    for (const [connection, signal] of of ?? []) {
      const here = this.#host.isPresent(signal.user)
      const endsAt = here ? signal.endsAt : Math.min(signal.endsAt, signal.at + overtakeMs)
      if (endsAt <= now || connection === this.#host.connection.who?.connection) of?.delete(connection)
      else {
        changesAt = Math.min(changesAt, endsAt)
        if (here) seen.set(connection, signal)
      }
    }
    if (of?.size === 0) this.#live.delete(kind)
    return { seen: seen.size === 0 ? none : seen, changesAt }
  }

  #put(said: Said, before: Live | undefined, now: number): void {
    const { user, connection, kind, data, docVersion, ttlMs } = said
    const of = this.#live.get(kind) ?? new Map<string, Live>()
    if (data === null) {
      of.delete(connection)
      return
    }
    const endsAt = ttlMs === null ? Number.POSITIVE_INFINITY : now + ttlMs
    this.#live.set(kind, of)
    // The same again is the same object: it only lives longer.
    const same = before?.user === user && before.docVersion === docVersion && sameJson(before.data, data)
    const signal = same ? before : { user, connection, kind, data, docVersion, at: now, endsAt }
    signal.endsAt = endsAt
    of.set(connection, signal)
  }

  #flush(): void {
    if (this.#sending) return
    const now = this.#host.environment.now()
    const changes: SignalChange[] = []
    for (const kind of this.#waiting) {
      const own = this.#own.get(kind)
      if (own === undefined || own.endsAt <= now) continue
      const { change } = own
      changes.push(change.ttlMs === undefined ? change : { ...change, ttlMs: Math.ceil(own.endsAt - now) })
    }
    const { room, current } = this.#host
    // Without a stream nothing is lost: the next one is told what still lives.
    if (current === null || changes.length === 0) return
    this.#waiting.clear()
    for (const { kind, data } of changes) if (data === null) this.#own.delete(kind)
    const messages = changes.map((change) => ({ type: 'signal' as const, room, ...change }))
    // An answer to each would double the traffic: on a WebSocket the first one tells whether we may.
    if (this.#asked === current && current.transport === 'websocket') {
      current.tell(...messages)
      return
    }
    this.#asked = current
    this.#sending = true
    void current.ask(...messages).then((answer) => {
      const refused = !answer.ok && answer.error.code !== 'closed' && current === this.#host.current
      if (refused) this.#host.fail(answer.error)
      this.#sending = false
      if (this.#waiting.size > 0) this.#throttle.request()
    })
  }

  #forget(): void {
    const now = this.#host.environment.now()
    for (const [kind, { endsAt }] of this.#own) if (endsAt <= now) this.#own.delete(kind)
  }

  #expect(at: number, now: number): void {
    this.#clearTimer()
    if (at === Number.POSITIVE_INFINITY) return
    this.#timer = this.#host.environment.setTimer(() => {
      this.#timer = null
      this.tell()
    }, at - now)
  }

  #clearTimer(): void {
    if (this.#timer !== null) this.#host.environment.clearTimer(this.#timer)
    this.#timer = null
  }
}

function sameSignals(a: Signals, b: Signals): boolean {
  if (a.size !== b.size) return false
  for (const [connection, signal] of b) if (a.get(connection) !== signal) return false
  return true
}

function toSignals(value: unknown): Said[] {
  const signals: Said[] = []
  for (const item of toList(value)) {
    if (!isRaw(item)) continue
    const { user, connection, kind, data, docVersion } = item
    if (typeof user !== 'string' || typeof connection !== 'string' || typeof kind !== 'string') continue
    const versioned = typeof docVersion === 'number' || typeof docVersion === 'string'
    signals.push({
      user,
      connection,
      kind,
      data: (data ?? null) as Json,
      docVersion: versioned ? docVersion : null,
      ttlMs: positive(item.ttlMs),
    })
  }
  return signals
}

export function ofRoom(host: SignalsHost): SignalTable {
  return new SignalTable(host)
}
