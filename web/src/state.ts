import type { ConnectionState, Health } from '@rollcall/client'

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

export function shownState(connection: ConnectionState, health: Health, known: boolean): ShownState {
  if (connection === 'disconnected' || health.ended !== null) return 'disconnected'
  if (connection === 'connected') {
    if (!health.stale && !health.settling) return 'live'
    return known ? 'stale' : 'connecting'
  }
  if (connection !== 'reconnecting') return 'connecting'
  return navigator.onLine ? 'reconnecting' : 'offline'
}
