import { type MaybeRefOrGetter, onScopeDispose, type ShallowRef, shallowRef, toValue, watch } from 'vue'
import type { Opening } from './adapter/opening.ts'
import { Seat, type StoreName, storeNames, type ValueOf } from './adapter/seat.ts'
import type { Client, Readable, RoomOptions, Watch } from './core/index.ts'

/** A room in Vue: its stores as shallow refs. What did not change is the same object. */
export type VueRoom = {
  readonly [K in StoreName]: Readonly<ShallowRef<ValueOf<K>>>
} & {
  /** The room itself, for `set`, `setStatus`, `on`. Another object when the id is another. */
  readonly room: Readonly<ShallowRef<Seat>>
}

/** Is in the room until the scope (a component, as a rule) is disposed of; the id may change. */
export function useRoom(client: Client, id: MaybeRefOrGetter<string>, options: RoomOptions = {}): VueRoom {
  const room = shallowRef(new Seat(client, toValue(id), options))
  let leave = enter(room.value)
  const move = (next: string) => {
    const left = leave
    room.value = new Seat(client, next, options)
    leave = enter(room.value)
    left()
  }
  watch(() => toValue(id), move, { flush: 'sync' })
  onScopeDispose(() => leave())
  const refs = storeNames.map((name) => [name, useReadable<unknown>(() => room.value[name])])
  return { room, ...Object.fromEntries(refs) }
}

/** A store as a shallow ref, until the scope is disposed of. */
export function useReadable<T>(store: MaybeRefOrGetter<Readable<T>>): Readonly<ShallowRef<T>> {
  const value: ShallowRef<T> = shallowRef(toValue(store).get())
  const follow = (next: Readable<T>) =>
    next.subscribe((now) => {
      value.value = now
    })
  let stop = follow(toValue(store))
  const change = (next: Readable<T>) => {
    stop()
    stop = follow(next)
  }
  watch(() => toValue(store), change, { flush: 'sync' })
  onScopeDispose(() => stop())
  return value
}

/** A window of a room, as `useOpening(room.value.page())`, open until the scope is disposed of. */
export function useOpening<S, T, W extends Watch<T>>(opening: Opening<S, T, W>): Readonly<ShallowRef<T>> {
  onScopeDispose(enter(opening))
  return useReadable(opening)
}

/** On a server nothing is entered. */
const enter = (held: Pick<Seat, 'attach'>) => (typeof document === 'undefined' ? () => {} : held.attach())

export { onlineOf } from './adapter/online.ts'
