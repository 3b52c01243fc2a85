import type { Ending } from './ending.ts'

const firstMs = 300
const baseMs = 1_000
const capMs = 20_000

/**
 * How long to wait before the next attempt; `failures` = attempts since the last good connection.
 * The first goes within 300 ms, inside any lease. After that full jitter, uniform in [0, base * 2^n),
 * which spreads a crowd better than jitter around a mean. The server's wish is a floor.
 */
export function backoffMs(failures: number, ending: Ending | null, random: () => number): number {
  const hint = (ending?.afterMs ?? 0) + (ending?.spreadMs ?? 0) * random()
  if (failures === 0) return ending?.afterMs ? hint : random() * firstMs
  return Math.max(hint, random() * Math.min(capMs, baseMs * 2 ** (failures - 1)))
}
