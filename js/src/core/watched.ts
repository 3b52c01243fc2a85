import type { Environment } from './environment.ts'
import type { RollcallError } from './error.ts'
import { type Raw, toList } from './frame.ts'
import type { Store } from './store.ts'
import type { Answer } from './stream.ts'
import { Throttle } from './throttle.ts'
import { tooMany } from './window.ts'

/** What is watched: how it is read from the wire, and what a caller is shown of it. */
export interface WatchedKind<T, V> {
  readonly limit: number
  /** One that is present, or null if it cannot be read. */
  read(item: unknown): readonly [user: string, value: T] | null
  /** The value before, if the new one is no other. */
  keep(before: T | undefined, after: T): T
  /** What to show of `present`; `before` itself if that is no other. */
  show(before: V, present: ReadonlyMap<string, T>): V
}

export interface WatchedHost {
  readonly environment: Environment
  /** Asks for these in place of those before; null where there is nobody to ask yet: `renew` follows. */
  ask(users: readonly string[]): Promise<Answer> | null
  fail(error: RollcallError): void
}

interface Caller<V> {
  readonly users: ReadonlySet<string>
  readonly store: Store<V>
}

const everyMs = 250

/**
 * The users that several callers watch, asked for as one list: the server knows one per room or
 * connection. Callers of one moment go in one message; an empty list ends it.
 */
export class Watched<T, V> {
  readonly #kind: WatchedKind<T, V>
  readonly #host: WatchedHost
  readonly #callers = new Set<Caller<V>>()
  readonly #throttle: Throttle
  #present = new Map<string, T>()
  #asked = ''
  /** What came since the last question: it may be newer than the answer. */
  #early: Raw[] = []
  #waits = false
  #questions = 0
  #planned = false

  constructor(kind: WatchedKind<T, V>, host: WatchedHost) {
    this.#kind = kind
    this.#host = host
    this.#throttle = new Throttle(host.environment, everyMs, () => this.#ask())
  }

  /** Watches `users` until it is closed; `store` shows who of them is here. */
  open(users: ReadonlySet<string>, store: Store<V>): { close(): void } {
    const caller = { users, store }
    this.#callers.add(caller)
    const { size } = this.#users()
    if (size > this.#kind.limit) {
      this.#callers.delete(caller)
      this.#host.fail(tooMany(size, this.#kind.limit))
      return { close() {} }
    }
    this.#showTo(caller)
    this.#plan()
    return {
      close: () => {
        if (this.#callers.delete(caller)) this.#plan()
      },
    }
  }

  /** There is a stream to ask, if it was not asked already. */
  renew(): void {
    this.#ask()
  }

  /** The next stream watches nobody. */
  down(): void {
    this.#asked = ''
    this.#throttle.cancel()
    this.#questions++
  }

  poke(): void {
    this.#throttle.poke()
  }

  /** A change that the server tells of. */
  apply(fields: Raw): void {
    if (this.#asked === '') return
    if (this.#waits) this.#early.push(fields)
    this.#take(fields)
    this.#show()
  }

  #plan(): void {
    if (this.#planned) return
    this.#planned = true
    Promise.resolve().then(() => {
      this.#planned = false
      this.#throttle.request()
    })
  }

  #users(): Set<string> {
    const users = new Set<string>()
    for (const caller of this.#callers) for (const user of caller.users) users.add(user)
    return users
  }

  #ask(): void {
    const users = this.#users()
    const list = [...users].sort()
    const key = JSON.stringify(list)
    if (key === this.#asked || (list.length === 0 && this.#asked === '')) return
    const answer = this.#host.ask(list)
    if (answer === null) return
    this.#asked = list.length === 0 ? '' : key
    for (const user of [...this.#present.keys()]) if (!users.has(user)) this.#present.delete(user)
    this.#early = []
    this.#waits = true
    const question = ++this.#questions
    void answer.then((answer) => {
      if (question === this.#questions) this.#answered(answer)
    })
  }

  #answered(answer: Answer): void {
    this.#waits = false
    const early = this.#early
    this.#early = []
    if (!answer.ok) {
      if (answer.error.code !== 'closed') this.#host.fail(answer.error)
      return
    }
    const before = this.#present
    this.#present = new Map()
    this.#take(answer.fields, before)
    for (const fields of early) this.#take(fields)
    this.#show()
  }

  #take(fields: Raw, before: ReadonlyMap<string, T> = this.#present): void {
    const users = this.#users()
    for (const item of toList(fields.present)) {
      const read = this.#kind.read(item)
      if (read === null || !users.has(read[0])) continue
      this.#present.set(read[0], this.#kind.keep(before.get(read[0]), read[1]))
    }
    for (const user of toList(fields.absent)) this.#present.delete(user as string)
  }

  #show(): void {
    const tells = [...this.#callers].map((caller) => this.#put(caller))
    for (const tell of tells) tell?.()
  }

  #showTo(caller: Caller<V>): void {
    this.#put(caller)?.()
  }

  #put({ users, store }: Caller<V>): (() => void) | undefined {
    const present = new Map<string, T>()
    for (const user of users) {
      const value = this.#present.get(user)
      if (value !== undefined) present.set(user, value)
    }
    return store.put(this.#kind.show(store.get(), present))
  }
}
