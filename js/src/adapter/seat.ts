import type { Client } from '../core/client.ts'
import type { ConnectionState } from '../core/connection.ts'
import { checkData, checkSize } from '../core/data.ts'
import type { Mode } from '../core/frame.ts'
import type { JsonObject, Member, Status } from '../core/member.ts'
import { type Health, healthy, type RoomEvents, type RoomStores } from '../core/presence.ts'
import type { Room, RoomOptions } from '../core/room.ts'
import type { SignalOptions, Signals } from '../core/signals.ts'
import type { Readable } from '../core/store.ts'
import {
  checkUsers,
  emptyPage,
  maxContacts,
  nobody,
  type Page,
  type PageOptions,
  type PageState,
} from '../core/window.ts'
import { hold } from './hold.ts'
import { type Openable, Opening } from './opening.ts'
import { Relay } from './relay.ts'

interface Listener {
  on(room: Room): () => void
  stop: () => void
}

/** The stores of a room, for adapters that make something of each. */
export const storeNames = [
  'count',
  'members',
  'others',
  'self',
  'sample',
  'mode',
  'data',
  'connection',
  'health',
] as const satisfies readonly (keyof RoomStores)[]

export type StoreName = (typeof storeNames)[number]
export type ValueOf<K extends StoreName> = RoomStores[K] extends Readable<infer T> ? T : never

const silence: Signals = new Map()

/** A window of a seat; `attach` opens it. */
export type SeatContacts = Opening<Room, readonly Member[]>
export type SeatPage = Opening<Room, PageState, Page> & Pick<Page, 'next' | 'more'>

/**
 * A room as a component holds it. It can be made while rendering, since that opens nothing, also on
 * a server; `attach` enters the room, for as long as the component is mounted. What is set before
 * goes along with the entry.
 */
export class Seat implements RoomStores {
  readonly client: Client
  readonly id: string
  readonly self = new Relay<Member | null>(null)
  readonly others = new Relay<readonly Member[]>(nobody)
  readonly members = new Relay<readonly Member[]>(nobody)
  readonly sample = new Relay<readonly Member[]>(nobody)
  readonly count = new Relay(0)
  readonly mode = new Relay<Mode | null>(null)
  readonly data: Relay<JsonObject>
  readonly connection: Relay<ConnectionState>
  readonly health = new Relay<Health>(healthy)
  readonly #options: RoomOptions
  readonly #listeners = new Set<Listener>()
  readonly #signals = new Map<string, Relay<Signals>>()
  readonly #openings = new Set<Openable<Room>>()
  #room: Room | null = null
  /** The newest room, also after it was let go of. */
  #entered: Room | null = null
  #data: JsonObject | undefined
  #replace = false
  /** What was set since the last entry, and whether anything was. */
  #pending: boolean
  #status: Status | null | undefined

  constructor(client: Client, id: string, options: RoomOptions = {}) {
    this.client = client
    this.id = id
    this.#options = options
    this.#data = options.data === undefined ? undefined : checkData(options.data)
    this.#pending = this.#data !== undefined
    this.data = new Relay<JsonObject>(this.#data ?? {})
    this.connection = new Relay<ConnectionState>('initial', client.connection)
  }

  /** Enters the room, until the returned function is called. */
  readonly attach = (): (() => void) => {
    const options = {
      ...this.#options,
      ...(this.#data === undefined ? {} : { data: this.#data }),
      ...(this.#status == null ? {} : { status: this.#status }),
    }
    const { room, isNew, release } = hold(this.client, this.id, options)
    if (!isNew && this.#pending && this.#data !== undefined) room.set(this.#data, { replace: this.#replace })
    if (!isNew && this.#status !== undefined) room.setStatus(this.#status)
    this.#pending = false
    this.#room = room
    this.#follow(room)
    for (const listener of this.#listeners) listener.stop = listener.on(room)
    for (const opening of this.#openings) opening.start(room)
    return () => {
      for (const listener of this.#listeners) listener.stop()
      for (const opening of this.#openings) opening.stop()
      if (this.#room === room) this.#room = null
      release()
    }
  }

  set(data: object, options: { readonly replace?: boolean } = {}): void {
    const replace = options.replace === true
    // Checked here too: a mistake is to be seen where it is made, entered or not.
    const patch = checkData(data)
    const whole = replace ? patch : { ...this.#data, ...patch }
    checkSize(whole)
    this.#room?.set(patch, options)
    this.#data = whole
    if (this.#room !== null) return
    this.#replace ||= replace
    this.#pending = true
  }

  setStatus(status: Status | null): void {
    this.#room?.setStatus(status)
    this.#status = status
  }

  /** As `room.signal`; while not entered there is nobody to tell. */
  signal(kind: string, value: unknown, options?: SignalOptions): void {
    this.#room?.signal(kind, value, options)
  }

  typing(on?: boolean): void {
    this.#room?.typing(on)
  }

  /** What others signal, by connection. The same store for the same kind. */
  signals(kind: string): Relay<Signals> {
    const known = this.#signals.get(kind)
    if (known !== undefined) return known
    const relay = new Relay<Signals>(silence, this.#entered?.signals(kind) ?? null)
    this.#signals.set(kind, relay)
    return relay
  }

  /** A window on the roster, open while it is attached and the room is entered. */
  page(options: PageOptions = {}): SeatPage {
    const open = (room: Room) => room.page(options)
    const page = new Opening<Room, PageState, Page>(emptyPage, this.#add, open)
    return Object.assign(page, { next: () => page.watch?.next(), more: () => page.watch?.more() })
  }

  /** Which of these users are here, while it is attached and the room is entered. */
  contacts(users: readonly string[]): SeatContacts {
    checkUsers(users, maxContacts)
    return new Opening<Room, readonly Member[]>(nobody, this.#add, (room) => room.contacts(users))
  }

  /** Listens until the returned function is called, whenever the room is entered. */
  on<K extends keyof RoomEvents>(type: K, fn: (event: RoomEvents[K]) => void): () => void {
    const listener: Listener = { on: (room) => room.on(type, fn), stop: () => {} }
    if (this.#room !== null) listener.stop = listener.on(this.#room)
    this.#listeners.add(listener)
    return () => {
      listener.stop()
      this.#listeners.delete(listener)
    }
  }

  readonly #add = (opening: Openable<Room>): (() => void) => {
    this.#openings.add(opening)
    if (this.#room !== null) opening.start(this.#room)
    return () => {
      this.#openings.delete(opening)
      opening.stop()
    }
  }

  #follow(room: Room): void {
    const follow = (name: StoreName) => (this[name] as Relay<unknown>).follow(room[name] as Readable<unknown>)
    this.#entered = room
    const tells = storeNames.map((name) => follow(name))
    for (const [kind, relay] of this.#signals) tells.push(relay.follow(room.signals(kind)))
    for (const tell of tells) tell()
  }
}
