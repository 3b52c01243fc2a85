import { type Accessor, createSignal, onCleanup, onMount } from 'solid-js'
import type { Opening } from './adapter/opening.ts'
import { Seat, type StoreName, storeNames, type ValueOf } from './adapter/seat.ts'
import type { Client, Readable, RoomOptions, Watch } from './core/index.ts'

/** A room in Solid: its stores as accessors. */
export type SolidRoom = {
  readonly [K in StoreName]: Accessor<ValueOf<K>>
} & {
  /** The room itself, for `set`, `setStatus`, `on`. */
  readonly room: Seat
}

/** Is in the room while the component is mounted. For an id that changes: `<Show when={id()} keyed>`. */
export function createRoom(client: Client, id: string, options: RoomOptions = {}): SolidRoom {
  const room = new Seat(client, id, options)
  // Runs in browsers only, so nothing is entered on a server.
  onMount(() => onCleanup(room.attach()))
  const accessors = storeNames.map((name) => [name, fromReadable<unknown>(room[name])])
  return { room, ...Object.fromEntries(accessors) }
}

/** A store as an accessor, until its owner is cleaned up. */
export function fromReadable<T>(store: Readable<T>): Accessor<T> {
  const [value, write] = createSignal(store.get())
  onCleanup(store.subscribe((next) => write(() => next)))
  return value
}

/** A window of a room, as `createOpening(room.room.page())`, open while the component is mounted. */
export function createOpening<S, T, W extends Watch<T>>(opening: Opening<S, T, W>): Accessor<T> {
  onMount(() => onCleanup(opening.attach()))
  return fromReadable(opening)
}

export { onlineOf } from './adapter/online.ts'
