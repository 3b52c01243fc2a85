import type { Tabs } from './environment.ts'
import type { Frame, Mode, ReadyFrame, RosterFrame, StateFrame } from './frame.ts'
import { LiveSignals } from './livesignals.ts'
import type { Status } from './member.ts'
import { emptyRoster, type Roster, reduce } from './roster.ts'
import { fine, type Post, pack } from './shared.ts'
import {
  type Answer,
  closed,
  type Entry,
  type Inquiry,
  type Message,
  type OpenStream,
  type Stream,
  type StreamRequest,
  type Wish,
} from './stream.ts'

interface Tab {
  readonly rooms: Map<string, Wish>
  /** Users watched: over all rooms under '', else by room. */
  readonly watched: Map<string, readonly string[]>
}

/** How long the rooms of a tab that is gone are kept: it may be loading again. */
const lingerMs = 1_000
/** After silence of so many beats a stream is as good as dead; tabs notice it a little later. */
const silenceBeats = 1.5
const ranks: readonly Status[] = ['away', 'idle', 'active']

/** What a hub has entered, as it tells all tabs: what nobody claims of the next one is left. */
export const former = new Map<string, ReadonlySet<string>>()

/** The stream to the server, on behalf of all tabs. It ends with its tab, or with the stream. */
export class Hub {
  readonly #key: string
  readonly #id: string
  readonly #request: StreamRequest
  readonly #channel: ReturnType<Tabs['channel']>
  readonly #tabs: Tabs
  #upstream: Stream
  readonly #known = new Map<string, Tab>()
  readonly #rosters = new Map<string, Roster>()
  readonly #signals = new Map<string, LiveSignals>()
  readonly #stops = new Map<string, () => void>()
  readonly #timers = new Set<unknown>()
  readonly #open: OpenStream
  readonly #resign: () => void
  #heardAt: number
  #ready: ReadyFrame | null = null
  #ended = false

  /** `resign` has the tab close the hub, for another to be it. */
  constructor(key: string, tabs: Tabs, request: StreamRequest, open: OpenStream, resign: () => void) {
    this.#key = key
    this.#id = tabs.newId()
    this.#tabs = tabs
    this.#request = request
    this.#open = open
    this.#resign = resign
    this.#heardAt = request.environment.now()
    // Whatever this tab knows of its rooms: those that come later will need all of it.
    const entries = request.entries.map((entry) => ({ ...entry, since: null }))
    this.#upstream = this.#connect({ ...request, entries })
    this.#channel = tabs.channel(key, (post) => this.#take(post as Post))
    this.#post('*', 'hub')
  }

  /** The tab of the hub goes: others take over what they are in. */
  close(own: string, how: 'left' | 'closing' | 'cut'): void {
    if (this.#ended) return
    const alone = [...this.#known.keys()].every((id) => id === own)
    if (how === 'left') this.#forget(own)
    this.#upstream.close(alone ? how : 'cut')
    if (alone && how === 'closing' && this.#ready !== null) {
      const { connection, resume } = this.#ready
      const { environment, endpoint } = this.#request
      const address = endpoint(['connections', connection, 'release'])
      environment.platform.navigator?.sendBeacon?.(address, JSON.stringify({ resume, closing: true }))
    }
    this.#post('*', 'over')
    this.#finish()
  }

  #connect(request: StreamRequest): Stream {
    return this.#open({
      ...request,
      onFrames: (frames) => this.#receive(frames),
      onEnd: (cause) => {
        this.#post('*', 'end', { cause })
        this.#finish()
      },
    })
  }

  /** A new stream for the same connection, with the rooms of all tabs: they enter again when it is ready. */
  #reopen(): void {
    if (this.#ready === null) return
    const { connection, resume } = this.#ready
    this.#ready = null
    this.#rosters.clear()
    this.#upstream.close('cut')
    const rooms = new Set([...this.#known.values()].flatMap(({ rooms }) => [...rooms.keys()]))
    const entries = [...rooms].map((room) => {
      const observe = this.#wishes(room, null).every((wish) => wish.observe)
      return { room, wish: { observe, status: this.#status(room), data: null }, since: null }
    })
    const held = { connection, resume }
    this.#upstream = this.#connect({ ...this.#request, held, entries })
  }

  #take(post: Post): void {
    if (this.#ended) return
    if (post.to !== 'hub' && post.to !== this.#id) return
    const { from, type } = post
    const id = post.id as number
    const answer = (answer: Answer) => this.#post(from, 'answer', { id, answer: pack(answer) })
    const messages = (post.messages ?? []) as readonly (Message | Inquiry)[]
    const probes = messages.some((message) => message.type === 'ping')
    if (this.#isSilent() && (type === 'hello' || probes)) {
      // The script runs, but the stream of this page does not: it is frozen, or the network is gone.
      this.#resign()
    } else if (type === 'hello') {
      this.#tab(from)
      this.#post(from, 'frames', { frames: this.#ready === null ? [] : [this.#ready] })
    } else if (type === 'join') {
      void this.#join(from, post.entry as Entry, post.resumed === true).then(answer)
    } else if (type === 'ask') {
      void this.#ask(from, messages as readonly Message[]).then(answer)
    } else if (type === 'tell') {
      this.#tell(from, messages)
    } else if (type === 'bye') {
      if (post.how === 'left') this.#forget(from)
      else this.#forgetLater(from)
    }
  }

  #tab(id: string): Tab {
    const known = this.#known.get(id)
    if (known !== undefined) return known
    const tab: Tab = { rooms: new Map(), watched: new Map() }
    this.#known.set(id, tab)
    // Ours when the tab is gone.
    this.#stops.set(id, this.#tabs.lock(`${this.#key} ${id}`, { held: () => this.#forgetLater(id) }))
    return tab
  }

  async #join(from: string, entry: Entry, resumed: boolean): Promise<Answer> {
    const { room, wish } = entry
    const others = this.#wishes(room, from)
    this.#tab(from).rooms.set(room, wish)
    this.#tellRooms()
    const members = others.filter(({ observe }) => !observe)
    if (others.length === 0 || (members.length === 0 && !wish.observe)) {
      if (!this.#upstream.takes(entry)) {
        this.#reopen()
        return closed()
      }
      return this.#upstream.join(entry, resumed)
    }
    const roster = this.#rosters.get(room)
    if (!this.#upstream.tell({ type: 'snapshot', room }) && roster?.mode) {
      const frames: Frame[] = [stateOf(room, roster, roster.mode)]
      const signals = this.#signals.get(room)
      if (signals !== undefined) frames.push(signals.frame(room, this.#request.environment.now()))
      this.#post(from, 'frames', { frames })
    }
    if (wish.observe) return fine
    const data = wish.data === null ? {} : { data: wish.data, replace: true }
    return this.#upstream.ask({ type: 'set', room, status: this.#status(room), ...data })
  }

  #tell(from: string, messages: readonly (Message | Inquiry)[]): void {
    switch (messages[0]?.type) {
      case 'snapshot':
        if (!this.#upstream.tell(...messages)) this.#reopen()
        break
      case 'ping':
        if (!this.#upstream.tell(...messages)) this.#post(from, 'frames', { frames: [] })
        break
      case 'signal':
        this.#upstream.tell(...messages)
        break
      default:
        void this.#ask(from, messages as readonly Message[])
    }
  }

  async #ask(from: string, messages: readonly Message[]): Promise<Answer> {
    const [first] = messages as readonly [Message]
    const { type, room = '' } = first
    const tab = this.#tab(from)
    switch (type) {
      case 'leave':
        this.#leave(tab, room)
        return fine
      case 'set': {
        const wish = tab.rooms.get(room)
        if (wish === undefined) return closed()
        if (first.status === undefined) return this.#upstream.ask(first)
        tab.rooms.set(room, { ...wish, status: first.status as Status })
        return this.#upstream.ask({ ...first, status: this.#status(room) })
      }
      case 'contacts':
      case 'users': {
        tab.watched.set(room, first.users as readonly string[])
        return this.#upstream.ask({ ...first, users: this.#watched(room) })
      }
      case 'page':
      case 'closePage':
        return this.#upstream.ask({ ...first, page: `${from}.${String(first.page)}` })
      default:
        return this.#upstream.ask(...messages)
    }
  }

  #isSilent(): boolean {
    const silence = this.#request.environment.now() - this.#heardAt
    return this.#ready !== null && silence > silenceBeats * this.#ready.beatMs
  }

  #receive(frames: readonly Frame[]): void {
    this.#heardAt = this.#request.environment.now()
    const all: Frame[] = []
    for (const frame of frames) {
      if (frame.type === 'ready') {
        this.#ready = frame
        this.#later(3_000, () => this.#leaveUnclaimed())
      } else if (frame.type === 'page') {
        const [to = '', page] = String(frame.fields.page).split('.')
        this.#post(to, 'frames', { frames: [{ ...frame, fields: { ...frame.fields, page } }] })
        continue
      } else if (frame.type === 'ok' || frame.type === 'error') {
        // An answer to what was asked, which it has.
        continue
      } else if (frame.type === 'signals') {
        const signals = this.#signals.get(frame.room) ?? new LiveSignals()
        this.#signals.set(frame.room, signals)
        signals.take(frame.fields, this.#heardAt)
      } else if (isRoster(frame)) {
        if (frame.type !== 'diff' && frame.type !== 'count') this.#signals.delete(frame.room)
        const { roster, gap } = reduce(this.#rosters.get(frame.room) ?? emptyRoster, frame, 0, true)
        if (gap === null) this.#rosters.set(frame.room, roster)
        else this.#rosters.delete(frame.room)
      }
      all.push(frame)
    }
    this.#post('*', 'frames', { frames: all })
  }

  #leave(tab: Tab, room: string): void {
    if (!tab.rooms.delete(room)) return
    tab.watched.delete(room)
    const left = [...this.#wishes(room, null)]
    this.#tellRooms()
    if (left.length === 0) {
      this.#rosters.delete(room)
      this.#signals.delete(room)
      this.#upstream.tell({ type: 'leave', room })
    } else if (left.every(({ observe }) => observe)) {
      // Only a new stream turns a member into an observer.
      this.#upstream.tell({ type: 'leave', room })
      this.#reopen()
    } else {
      this.#upstream.tell({ type: 'set', room, status: this.#status(room) })
    }
  }

  #forget(id: string): void {
    const tab = this.#known.get(id)
    if (tab === undefined) return
    for (const room of [...tab.rooms.keys()]) this.#leave(tab, room)
    this.#known.delete(id)
    this.#stops.get(id)?.()
    this.#stops.delete(id)
  }

  #forgetLater(id: string): void {
    this.#later(lingerMs, () => this.#forget(id))
  }

  #leaveUnclaimed(): void {
    for (const room of former.get(this.#key) ?? []) {
      if (this.#wishes(room, null).length === 0) this.#upstream.tell({ type: 'leave', room })
    }
    former.delete(this.#key)
    this.#tellRooms()
  }

  #wishes(room: string, except: string | null): Wish[] {
    const wishes: Wish[] = []
    for (const [id, { rooms }] of this.#known) {
      const wish = rooms.get(room)
      if (wish !== undefined && id !== except) wishes.push(wish)
    }
    return wishes
  }

  /** The highest of all tabs, as the server has it for connections. */
  #status(room: string): Status {
    const statuses = this.#wishes(room, null).filter(({ observe }) => !observe)
    return ranks[Math.max(0, ...statuses.map(({ status }) => ranks.indexOf(status)))] as Status
  }

  #watched(room: string): string[] {
    const users = new Set<string>()
    for (const { watched } of this.#known.values())
      for (const user of watched.get(room) ?? []) users.add(user)
    return [...users]
  }

  /** For the hub after us. */
  #tellRooms(): void {
    const rooms = new Set(former.get(this.#key) ?? [])
    for (const tab of this.#known.values()) for (const room of tab.rooms.keys()) rooms.add(room)
    this.#post('*', 'rooms', { rooms: [...rooms] })
  }

  #later(ms: number, fn: () => void): void {
    const { setTimer } = this.#request.environment
    const timer = setTimer(() => {
      this.#timers.delete(timer)
      if (!this.#ended) fn()
    }, ms)
    this.#timers.add(timer)
  }

  #post(to: string, type: string, fields: object = {}): void {
    this.#channel.post({ to, from: this.#id, type, ...fields })
  }

  #finish(): void {
    this.#ended = true
    for (const timer of this.#timers) this.#request.environment.clearTimer(timer)
    for (const stop of this.#stops.values()) stop()
    this.#channel.close()
  }
}

function isRoster(frame: Frame): frame is RosterFrame {
  return 'version' in frame
}

function stateOf(room: string, roster: Roster, mode: Mode): StateFrame {
  const { epoch, version, count, list, sample } = roster
  return { type: 'snapshot', room, epoch, version, mode, count, members: list, sample, settlingMs: 0 }
}
