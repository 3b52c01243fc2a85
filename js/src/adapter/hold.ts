import type { Client } from '../core/client.ts'
import type { Room, RoomOptions } from '../core/room.ts'

/**
 * How long a room stays entered after the last component let go of it. Frameworks unmount and mount
 * again within one tick (strict mode, a change of route, a moved element), and that is not a leave.
 */
export const lingerMs = 250

interface Held {
  readonly room: Room
  holders: number
  timer: ReturnType<typeof setTimeout> | null
}

const held = new WeakMap<Client, Map<string, Held>>()

export interface Hold {
  readonly room: Room
  /** The room was entered by this call, with the options of this call. */
  readonly isNew: boolean
  /** Calling it again does nothing. */
  release(): void
}

/** Enters a room, once for all its holders; it is left a moment after the last of them released it. */
export function hold(client: Client, id: string, options: RoomOptions): Hold {
  const rooms = held.get(client) ?? new Map<string, Held>()
  held.set(client, rooms)
  // To see and to be present are two entries: the end of one must not end the other.
  const key = `${options.observe === true ? 'observe' : 'present'} ${id}`
  const entered = rooms.get(key)
  // Where the server ended our lease nothing more comes: to mount again is to enter again.
  const known = entered?.room.health.get().ended === null ? entered : undefined
  const entry = known ?? { room: client.enter(id, options), holders: 0, timer: null }
  rooms.set(key, entry)
  if (entry.timer !== null) clearTimeout(entry.timer)
  entry.timer = null
  entry.holders++
  let released = false
  const release = () => {
    if (released) return
    released = true
    if (--entry.holders > 0) return
    entry.timer = setTimeout(() => {
      if (rooms.get(key) === entry) rooms.delete(key)
      entry.room.leave()
    }, lingerMs)
  }
  return { room: entry.room, isNew: known === undefined, release }
}
