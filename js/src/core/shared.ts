import type { Environment, Tabs } from './environment.ts'
import { RollcallError, textOf } from './error.ts'
import type { Frame } from './frame.ts'
import { former, Hub } from './hub.ts'
import {
  type Answer,
  type Cause,
  closed,
  type Entry,
  type Inquiry,
  type Message,
  type OpenStream,
  type Stream,
  type StreamRequest,
  type TransportName,
} from './stream.ts'

/*
 * One connection for all tabs of a browser. Each tab has a stream of its own to a hub, over a
 * BroadcastChannel; the hub has the one to the server, and lives in the tab that holds a Web Lock.
 * When that tab goes, the streams of all others end, they come back, and the first of them has the lock:
 * it resumes the same connection, with the secret that every tab was given in `ready`. A tab may also be
 * frozen with the lock in its hands: a hub that says nothing is robbed of it, and finds out when it wakes up.
 */

/** How long a hub may take to answer: one that we know nothing of, and one that has been silent already. */
const patienceMs = 3_000
const doubtMs = 300

/**
 * The data that a client has said, by room, as JSON. A connection that changed hands still has that of the tab
 * that said it last: nobody says theirs again who has nothing new to say.
 */
const said = new WeakMap<Environment, Map<string, string>>()

/** The keys of hubs that were silent for so long that their streams were given up. */
const doubted = new Set<string>()

/** What tabs and hub say to each other; `to` is a tab, a hub, whoever is the `hub`, or `*` for all tabs. */
export interface Post {
  readonly to: string
  readonly from: string
  readonly type: string
  readonly [field: string]: unknown
}

/**
 * Tabs share a connection if they would be the same to the server: its address, and the claims of the token.
 * Null where the identity is not known here: cookies may be those of another user by now.
 */
function shareKey({ endpoint, token, guest }: StreamRequest, tabs: Tabs, as: string | null): string | null {
  const claims = claimsOf(token, tabs.decode)
  if (as === null && claims === null && guest === null) return null
  return `rollcall ${endpoint([])} ${JSON.stringify([as, claims, guest])}`
}

/** What a token says of its holder; when it was issued and until when it is good makes nobody another. */
function claimsOf(token: string | null, decode: Tabs['decode']): string | null {
  if (token === null) return null
  try {
    const payload = decode((token.split('.')[1] ?? '').replace(/-/g, '+').replace(/_/g, '/'))
    const { iat: _, nbf: __, exp: ___, jti: ____, ...claims } = JSON.parse(payload)
    return JSON.stringify(claims)
  } catch {
    return token
  }
}

export function openShared(
  request: StreamRequest,
  tabs: Tabs,
  open: OpenStream,
  transport: TransportName,
  as: string | null = null,
): Stream | null {
  const key = shareKey(request, tabs, as)
  return key === null ? null : new SharedStream(key, request, tabs, open, transport)
}

class SharedStream implements Stream {
  readonly transport: TransportName
  readonly #id: string
  readonly #key: string
  readonly #request: StreamRequest
  readonly #channel: ReturnType<Tabs['channel']>
  readonly #said: Map<string, string>
  readonly #waiting = new Map<number, (answer: Answer) => void>()
  readonly #stops: (() => void)[]
  readonly #open: () => Hub
  readonly #steal: () => void
  #patience: unknown = null
  #hub: Hub | null = null
  /** The hub that we are bound to, from its `ready` on. */
  #bound: string | null = null
  #nextId = 1
  #ended = false

  constructor(key: string, request: StreamRequest, tabs: Tabs, open: OpenStream, transport: TransportName) {
    this.transport = transport
    this.#request = request
    this.#key = key
    this.#id = tabs.newId()
    this.#said = said.get(request.environment) ?? new Map()
    said.set(request.environment, this.#said)
    this.#channel = tabs.channel(key, (post) => this.#take(post as Post))
    const resign = () => this.#end(handover('another tab has the connection'))
    this.#open = () => new Hub(key, tabs, request, open, resign)
    // Lost if we were asleep, and another was not.
    const lead = { held: () => this.#lead(), lost: resign }
    const wait = tabs.lock(key, lead)
    this.#stops = [
      () => this.#channel.close(),
      () => request.environment.clearTimer(this.#patience),
      // Held as long as we are here: that it is free tells the hub that we are gone, however we went.
      tabs.lock(`${key} ${this.#id}`, { held: () => {} }),
      wait,
    ]
    this.#steal = () => {
      wait()
      this.#stops.push(tabs.lock(key, lead, true))
    }
    this.#post('hello')
    // Random, so that one of several tabs is the first: from then on there is a hub.
    const patience = (doubted.delete(key) ? doubtMs : patienceMs) * (1 + request.environment.random() / 2)
    this.#patience = request.environment.setTimer(() => this.#steal(), patience)
  }

  takes(): boolean {
    return true
  }

  async join(entry: Entry, resumed: boolean): Promise<Answer> {
    const { room, wish } = entry
    const data = JSON.stringify(wish.data)
    const known = resumed && this.#said.get(room) === data
    const told = known ? { ...entry, wish: { ...wish, data: null } } : entry
    const answer = await this.#asks('join', { entry: told, resumed })
    if (answer.ok) this.#said.set(room, data)
    return answer
  }

  async ask(...messages: readonly Message[]): Promise<Answer> {
    const answer = await this.#asks('ask', { messages })
    const [{ type, room = '', data, replace }] = messages as readonly [Message]
    if (answer.ok && type === 'set' && data !== undefined) {
      const before = replace === true ? {} : JSON.parse(this.#said.get(room) ?? '{}')
      this.#said.set(room, JSON.stringify({ ...before, ...(data as object) }))
    }
    return answer
  }

  tell(...messages: readonly (Message | Inquiry)[]): boolean {
    this.#post('tell', { messages })
    return true
  }

  close(how: 'left' | 'closing' | 'cut'): void {
    if (this.#ended) return
    if (how === 'cut' && this.#bound !== null && this.#hub === null) doubted.add(this.#key)
    this.#post('bye', { how })
    this.#finish(how)
  }

  /** The lock is ours. */
  #lead(): void {
    if (this.#ended) return
    if (this.#bound !== null) {
      // The hub that we were bound to is gone: all begin anew, and one of them leads.
      this.#channel.post({ to: '*', from: this.#bound, type: 'over' })
      this.#end(handover('the tab with the connection is gone'))
      return
    }
    this.#heard()
    try {
      this.#hub = this.#open()
    } catch (error) {
      this.#end({ type: 'cut', message: textOf(error) })
    }
  }

  /** There is a hub, or we are about to be it. */
  #heard(): void {
    this.#request.environment.clearTimer(this.#patience)
  }

  #take(post: Post): void {
    if (this.#ended || (post.to !== this.#id && post.to !== '*')) return
    const { from } = post
    if (post.type === 'hub') {
      if (this.#bound !== null) this.#end(handover('another tab has the connection'))
      else this.#post('hello')
    }
    // What a hub says that was asleep, and does not know yet that there is another.
    if (this.#bound !== null && from !== this.#bound) return
    this.#heard()
    switch (post.type) {
      case 'rooms':
        former.set(this.#key, new Set(post.rooms as string[]))
        break
      case 'over':
        if (this.#bound !== null) this.#end(handover('the tab with the connection is gone'))
        break
      case 'frames': {
        const frames = post.frames as readonly Frame[]
        if (frames.some(({ type }) => type === 'ready')) this.#bound = from
        if (this.#bound !== null) this.#request.onFrames(frames)
        break
      }
      case 'answer':
        this.#waiting.get(post.id as number)?.(revive(post.answer as Packed))
        this.#waiting.delete(post.id as number)
        break
      case 'end':
        this.#end(post.cause as Cause)
        break
    }
  }

  #asks(type: string, fields: object): Promise<Answer> {
    if (this.#ended) return Promise.resolve(closed())
    return new Promise((resolve) => {
      const id = this.#nextId++
      this.#waiting.set(id, resolve)
      this.#post(type, { id, ...fields })
    })
  }

  #post(type: string, fields: object = {}): void {
    if (!this.#ended) this.#channel.post({ to: this.#bound ?? 'hub', from: this.#id, type, ...fields })
  }

  #end(cause: Cause): void {
    if (this.#ended) return
    this.#finish('cut')
    this.#request.onEnd(cause)
  }

  #finish(how: 'left' | 'closing' | 'cut'): void {
    this.#ended = true
    this.#hub?.close(this.#id, how)
    for (const stop of this.#stops) stop()
    for (const resolve of this.#waiting.values()) resolve(closed())
    this.#waiting.clear()
  }
}

/** No failure: the way back is taken at once, inside any grace. */
function handover(message: string): Cause {
  return { type: 'handover', message }
}

/** There was nothing to ask the server. */
export const fine: Answer = { ok: true, fields: {} }

/** Errors lose their class on the way from tab to tab. */
type Packed = { readonly ok: true; readonly fields: object } | { readonly ok: false; readonly error: Plain }
interface Plain {
  readonly code: string
  readonly message: string
  readonly retry: boolean
}

export function pack(answer: Answer): Packed {
  if (answer.ok) return answer
  const { code, message, retry } = answer.error
  return { ok: false, error: { code, message: message.replace(/^rollcall: /, ''), retry } }
}

function revive(answer: Packed): Answer {
  if (answer.ok) return answer as Answer
  const { code, message, retry } = answer.error
  return { ok: false, error: new RollcallError(code, message, retry) }
}
