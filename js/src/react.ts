'use client'

import {
  createContext,
  createElement,
  type ReactElement,
  type ReactNode,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from 'react'
import { type LostConnectionEvent, onLostConnection } from './adapter/lost.ts'
import { onlineOf } from './adapter/online.ts'
import type { Relay } from './adapter/relay.ts'
import { Seat } from './adapter/seat.ts'
import type {
  Client,
  ConnectionState,
  JsonObject,
  Member,
  Mode,
  PageOptions,
  PageState,
  RoomOptions,
  SignalOptions,
  Signals,
  Status,
} from './core/index.ts'
import { type Cursor, type CursorOptions, watchCursors } from './cursors.ts'

/*
 * Hooks for React, under the names that Liveblocks gave them where they mean the same. They only
 * adapt: a component renders again when what it selected is another value, and for nothing else.
 */

export type { LostConnectionEvent }
export type UpdateMyPresence = (data: object, options?: { readonly replace?: boolean }) => void

const ClientContext = createContext<Client | null>(null)
const RoomContext = createContext<Seat | null>(null)

/** Hands a client to the components below. It closes nothing: the client belongs to who made it. */
export function RollcallProvider(props: {
  readonly client: Client
  readonly children?: ReactNode
}): ReactElement {
  return createElement(ClientContext.Provider, { value: props.client }, props.children)
}

export interface RoomProviderProps {
  readonly id: string
  /** Our `data` on entry. Later values are for `useUpdateMyPresence`. */
  readonly initialPresence?: object
  /** Fixes the status; left out, it follows the person at the page. */
  readonly status?: Status
  /** See without being seen or counted. */
  readonly observe?: boolean
  readonly children?: ReactNode
}

/** Is in the room while mounted. */
export function RoomProvider(props: RoomProviderProps): ReactElement {
  const client = useClient()
  const { id, observe = false } = props
  const make = () => ({ observe, seat: new Seat(client, id, optionsOf(props)) })
  const [state, setState] = useState(make)
  const same = state.seat.client === client && state.seat.id === id && state.observe === observe
  const current = same ? state : make()
  if (!same) setState(current)
  const { seat } = current
  useEffect(() => seat.attach(), [seat])
  const { status } = props
  const fixed = useRef(status)
  useEffect(() => {
    if (fixed.current === status) return
    fixed.current = status
    seat.setStatus(status ?? null)
  }, [seat, status])
  return createElement(RoomContext.Provider, { value: seat }, props.children)
}

export function useClient(): Client {
  const client = useContext(ClientContext)
  if (client === null) throw new Error('rollcall: there is no RollcallProvider above this component')
  return client
}

/** The room itself: stores, `set`, `setStatus`, `on`. The same object for as long as the room is the same. */
export function useRoom(): Seat {
  const seat = useContext(RoomContext)
  if (seat === null) throw new Error('rollcall: there is no RoomProvider above this component')
  return seat
}

/** Our own member as the server has it, or null. */
export function useSelf(): Member | null
export function useSelf<T>(
  selector: (self: Member) => T,
  isEqual?: (a: T | null, b: T | null) => boolean,
): T | null
export function useSelf<T>(
  selector?: (self: Member) => T,
  isEqual?: (a: T | null, b: T | null) => boolean,
): T | Member | null {
  const select = selector && ((self: Member | null) => (self === null ? null : selector(self)))
  return useSelected(useRoom().self, select as never, isEqual as never)
}

/** The others by name; with a selector, what it makes of them. */
export function useOthers(): readonly Member[]
export function useOthers<T>(selector: (others: readonly Member[]) => T, isEqual?: (a: T, b: T) => boolean): T
export function useOthers<T>(
  selector?: (others: readonly Member[]) => T,
  isEqual?: (a: T, b: T) => boolean,
): T | readonly Member[] {
  return useSelected(useRoom().others, selector as never, isEqual as never)
}

/** One of the others by user id, or null if that user is not here. */
export function useOther(user: string): Member | null
export function useOther<T>(
  user: string,
  selector: (other: Member) => T,
  isEqual?: (a: T | null, b: T | null) => boolean,
): T | null
export function useOther<T>(
  user: string,
  selector?: (other: Member) => T,
  isEqual?: (a: T | null, b: T | null) => boolean,
): T | Member | null {
  const select = (others: readonly Member[]) => {
    const other = others.find((member) => member.user === user)
    if (other === undefined) return null
    return selector ? selector(other) : other
  }
  return useSelected(useRoom().others, select, isEqual as never)
}

/** What we have set in this room, at once, and the way to change it. */
export function useMyPresence(): readonly [presence: JsonObject, update: UpdateMyPresence] {
  return [useSelected(useRoom().data), useUpdateMyPresence()]
}

/** Merges keys into our `data`; `{ replace: true }` sets the whole. Renders nothing again. */
export function useUpdateMyPresence(): UpdateMyPresence {
  const room = useRoom()
  return useMemo<UpdateMyPresence>(() => (data, options) => room.set(data, options), [room])
}

/** How many are here; right in rooms of any size. */
export function useCount(): number {
  return useSelected(useRoom().count)
}

/** `full`: everyone is named; `counts`: only `useCount` and `room.sample`; null: not known yet. */
export function useRoomMode(): Mode | null {
  return useSelected(useRoom().mode)
}

/** Any store of a room, as `useStore(useRoom().health)`. */
export function useStore<T>(store: Relay<T>): T {
  return useSelected(store)
}

/** A window on the roster, current while mounted; `next` and `more` as of `room.page`. */
export function usePage(options: PageOptions = {}): PageState & { next(): void; more(): void } {
  const room = useRoom()
  const { limit, cursor } = options
  const page = useMemo(
    () => room.page({ ...(limit === undefined ? {} : { limit }), ...(cursor == null ? {} : { cursor }) }),
    [room, limit, cursor],
  )
  useEffect(() => page.attach(), [page])
  const state = useSelected<PageState>(page)
  return useMemo(() => ({ ...state, next: page.next, more: page.more }), [page, state])
}

/** Which of these users are here, by name. The list may be written in place. */
export function useContacts(users: readonly string[]): readonly Member[] {
  const room = useRoom()
  const key = JSON.stringify(users)
  const contacts = useMemo(() => room.contacts(JSON.parse(key)), [room, key])
  useEffect(() => contacts.attach(), [contacts])
  return useSelected(contacts)
}

/** Who of these users is online in any room, and how; needs no `RoomProvider`. */
export function useOnline(users: readonly string[]): ReadonlyMap<string, Status> {
  const client = useClient()
  const key = JSON.stringify(users)
  const online = useMemo(() => onlineOf(client, JSON.parse(key)), [client, key])
  useEffect(() => online.attach(), [online])
  return useSelected(online)
}

/** The state of the connection. */
export function useStatus(): ConnectionState {
  return useSelected(useRoom().connection)
}

/** Calls `fn` with `lost` when a reconnect takes longer than five seconds, then `restored` or `failed`. */
export function useLostConnectionListener(fn: (event: LostConnectionEvent) => void): void {
  const { connection } = useRoom()
  const newest = useRef(fn)
  useEffect(() => {
    newest.current = fn
  })
  useEffect(() => onLostConnection(connection, (event) => newest.current(event)), [connection])
}

/** What others signal, by connection, and the way to signal oneself. */
export function useSignal(
  kind: string,
): readonly [signals: Signals, signal: (value: unknown, options?: SignalOptions) => void] {
  const room = useRoom()
  const signal = useMemo(
    () => (value: unknown, options?: SignalOptions) => room.signal(kind, value, options),
    [room, kind],
  )
  return [useSelected(room.signals(kind)), signal]
}

/** Who else is typing, by name, and what to call at each key. Nobody is named in counts mode. */
export function useTyping(): readonly [typists: readonly Member[], typing: (on?: boolean) => void] {
  const room = useRoom()
  const signals = useSelected(room.signals('typing'))
  const select = useMemo(() => {
    const users = new Set([...signals.values()].map(({ user }) => user))
    return (others: readonly Member[]) => others.filter(({ user }) => users.has(user))
  }, [signals])
  const typing = useMemo(() => (on?: boolean) => room.typing(on), [room])
  return [useSelected(room.others, select, shallow), typing]
}

/**
 * The cursors of others, moving smoothly: `room.signal('cursor', { x, y })` is the other end. Renders
 * at each frame of the display while one moves, so it belongs in a component of its own.
 */
export function useCursors(options: CursorOptions = {}): readonly Cursor[] {
  const signals = useRoom().signals('cursor')
  const [cursors, setCursors] = useState<readonly Cursor[]>(none)
  const { reducedMotion, restAfterMs, restOpacity } = options
  useEffect(() => {
    const stop = watchCursors(signals, setCursors, {
      ...(reducedMotion === undefined ? {} : { reducedMotion }),
      ...(restAfterMs === undefined ? {} : { restAfterMs }),
      ...(restOpacity === undefined ? {} : { restOpacity }),
    })
    return () => {
      stop()
      setCursors(none)
    }
  }, [signals, reducedMotion, restAfterMs, restOpacity])
  return cursors
}

const none: readonly Cursor[] = []

/** Equal if both are the same, or arrays or plain objects whose items are the same. */
export function shallow(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const [left, right] = [a, b] as Record<string, unknown>[] as [
    Record<string, unknown>,
    Record<string, unknown>,
  ]
  const keys = Object.keys(left)
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && Object.is(left[key], right[key]))
  )
}

function optionsOf({ initialPresence, status, observe }: RoomProviderProps): RoomOptions {
  return {
    ...(initialPresence === undefined ? {} : { data: initialPresence }),
    ...(status === undefined ? {} : { status }),
    ...(observe === true ? { observe } : {}),
  }
}

/** Reads a store through a selector; what is equal to the value before is the value before. */
function useSelected<S>(store: Relay<S>): S
function useSelected<S, T>(
  store: Relay<S>,
  selector: ((value: S) => T) | undefined,
  isEqual: ((a: T, b: T) => boolean) | undefined,
): T
function useSelected<S, T>(
  store: Relay<S>,
  selector?: (value: S) => T,
  isEqual: (a: T, b: T) => boolean = Object.is,
): T {
  // What was rendered last, so that a selector written in place keeps its result.
  const shown = useRef<{ readonly value: T } | null>(null)
  const [get, getFirst] = useMemo(() => {
    const reader = (read: () => S) => {
      let last: { readonly from: S; readonly value: T } | null = null
      return () => {
        const from = read()
        if (last !== null && Object.is(last.from, from)) return last.value
        const fresh = selector ? selector(from) : (from as unknown as T)
        const before = last ?? shown.current
        const value = before !== null && isEqual(before.value, fresh) ? before.value : fresh
        last = { from, value }
        return value
      }
    }
    return [reader(store.get), reader(() => store.initial)]
  }, [store, selector, isEqual])
  const value = useSyncExternalStore(store.subscribe, get, getFirst)
  useEffect(() => {
    shown.current = { value }
  }, [value])
  return value
}
