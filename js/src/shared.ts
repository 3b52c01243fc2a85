import type { Platform, Tabs } from './core/environment.ts'
import { openShared } from './core/shared.ts'
import type { Share } from './core/stream.ts'
import { platformTabs } from './core/tabs.ts'

export type { Share, Tabs }

export interface ShareOptions {
  /** Who the user is, where neither a token nor a guest says it: with cookies. */
  readonly as?: string
  /** Default: those of the browser. */
  readonly tabs?: Tabs | null
}

/**
 * One connection for all tabs of a browser: `createClient({ share: shareTabs() })`. Null where there are
 * no Web Locks or no BroadcastChannel (also outside of secure contexts): each tab has its own there.
 */
export function shareTabs({
  as,
  tabs = platformTabs(globalThis as Platform),
}: ShareOptions = {}): Share | null {
  return tabs && ((request, open, transport) => openShared(request, tabs, open, transport, as))
}
