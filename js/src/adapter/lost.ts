import type { ConnectionState } from '../core/connection.ts'
import type { Readable } from '../core/store.ts'

export type LostConnectionEvent = 'lost' | 'restored' | 'failed'

/** A connection that is back sooner than this was never worth a word. */
export const lostAfterMs = 5_000

/**
 * Tells of losses that a person should know of: `lost` if the way back takes longer than five
 * seconds, then `restored`, or `failed` if there is none. Until the returned function is called.
 */
export function onLostConnection(
  connection: Readable<ConnectionState>,
  fn: (event: LostConnectionEvent) => void,
): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null
  let lost = false
  const clear = () => {
    if (timer !== null) clearTimeout(timer)
    timer = null
  }
  const stop = connection.subscribe((state) => {
    if (state === 'reconnecting') {
      if (lost) return
      timer ??= setTimeout(() => {
        lost = true
        fn('lost')
      }, lostAfterMs)
      return
    }
    const wasLost = lost
    const wasAway = timer !== null
    clear()
    lost = false
    if (state === 'connected' && wasLost) fn('restored')
    if (state === 'disconnected' && (wasLost || wasAway)) fn('failed')
  })
  return () => {
    clear()
    stop()
  }
}
