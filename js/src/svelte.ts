import { onMount } from 'svelte'
import { Seat } from './adapter/seat.ts'
import type { Client, RoomOptions } from './core/index.ts'

/**
 * Is in the room while the component is mounted. Call it while the component is made; its stores are
 * Svelte stores as they are:
 *
 *     const { others, count } = enterRoom(client, 'doc:42')
 *     {#each $others as { user, info } (user)} ... {/each}
 *
 * For an id that changes, wrap the component in `{#key id}`.
 */
export function enterRoom(client: Client, id: string, options: RoomOptions = {}): Seat {
  const seat = new Seat(client, id, options)
  // Runs in browsers only, so nothing is entered on a server.
  onMount(seat.attach)
  return seat
}

/** A window of a room, as `openWindow(room.page())`, open while the component is mounted: a store too. */
export function openWindow<O extends Pick<Seat, 'attach'>>(opening: O): O {
  onMount(opening.attach)
  return opening
}

export { onlineOf } from './adapter/online.ts'
