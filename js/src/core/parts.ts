import { Lazy } from './lazy.ts'

/*
 * What not everyone needs, and nobody at first. A page that must not wait, or that may be offline by
 * then, fetches it ahead: `preload('signals')`.
 */

export const parts = {
  sse: new Lazy(() => import('./sse.ts')),
  signals: new Lazy(() => import('./signals.ts')),
  upkeep: new Lazy(() => import('./upkeep.ts')),
  windows: new Lazy(() => import('./windows.ts')),
} as const

export type Part = keyof typeof parts

/** Fetches parts before they are used: `sse`, `signals`, `windows` (pages, contacts, online), `upkeep`. */
export async function preload(...names: readonly Part[]): Promise<void> {
  await Promise.all(names.map((name) => parts[name].load()))
}
