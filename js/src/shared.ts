import type { Share } from './core/stream.ts'
import { openShared } from './shared/stream.ts'
import { browserTabs, type Tabs } from './shared/tabs.ts'

export type { Share, Tabs }

/**
 * One connection for all tabs of a browser: `createClient({ share: shareTabs() })`. Null where there are
 * no Web Locks or no BroadcastChannel (also outside of secure contexts): each tab has its own there.
 */
export function shareTabs(tabs: Tabs | null = browserTabs()): Share | null {
  return tabs && ((request, open, transport) => openShared(request, tabs, open, transport))
}
