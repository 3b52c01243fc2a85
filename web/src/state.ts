import type { Room } from '@rollcall/client'

/** What the lamp at the top says. Live means live: connected, and the list is the newest there is. */
export type ShownState = 'connecting' | 'live' | 'reconnecting' | 'stale' | 'offline' | 'disconnected'

export const stateTexts: Readonly<Record<ShownState, string>> = {
  connecting: 'Connecting',
  live: 'Live',
  reconnecting: 'Reconnecting, last known list',
  stale: 'Connected, list may be old',
  offline: 'Offline, last known list',
  disconnected: 'Disconnected',
}

export function shownState(room: Room): ShownState {
  const [connection, health, known] = [room.connection.get(), room.health.get(), room.mode.get() !== null]
  if (connection === 'disconnected' || health.ended !== null) return 'disconnected'
  if (connection === 'connected') {
    if (!known) return 'connecting'
    // A settling server is only a doubt where someone is shown who may not come back.
    return health.stale || room.members.get().some(({ stale }) => stale) ? 'stale' : 'live'
  }
  if (connection !== 'reconnecting') return 'connecting'
  return navigator.onLine ? 'reconnecting' : 'offline'
}
