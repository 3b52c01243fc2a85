import type { Environment, Loaded, Platform, Tabs } from './environment.ts'

/** Those to share event streams to `address` with, without being told to. */
export function streamTabs({ tabs, origin, platform }: Environment, address: string): Tabs | null {
  if (tabs !== undefined) return tabs
  const loaded = platform.performance?.getEntries() ?? []
  return origin === null || hasManyStreams(address, loaded) ? null : platformTabs(platform)
}

/**
 * Whether streams to the server at `address` are many, and none is in the way of another: over HTTP/2 or
 * newer, as the browser noted it of earlier requests. Of another origin it may not say.
 */
export function hasManyStreams(address: string, loaded: readonly Loaded[]): boolean {
  const [origin = ''] = /^https?:\/\/[^/]+\//.exec(address) ?? []
  const last = loaded
    .filter(({ name }) => name.startsWith(origin))
    .map(({ nextHopProtocol }) => nextHopProtocol)
    .filter(Boolean)
    .at(-1)
  return /^h[23]/.test(last ?? '')
}

/** The tabs of the same origin; null where the platform has none. Locks are there in secure contexts alone. */
export function platformTabs(platform: Platform): Tabs | null {
  const { AbortController, BroadcastChannel, atob, crypto, navigator } = platform
  const locks = navigator?.locks
  if (!BroadcastChannel || !atob || !crypto || !locks) return null
  return {
    lock: (name, on, steal = false) => {
      const abort = new AbortController()
      let held = false
      let release = () => {}
      const until = new Promise<void>((resolve) => {
        release = resolve
      })
      locks
        .request(name, steal ? { steal } : { signal: abort.signal }, () => {
          held = !abort.signal.aborted
          if (held) on.held()
          return until
        })
        // Stolen, or given up before it was ours.
        .catch(() => held && on.lost?.())
      return () => {
        held = false
        release()
        abort.abort()
      }
    },
    channel: (name, onPost) => {
      const channel = new BroadcastChannel(name)
      channel.addEventListener('message', ({ data }) => onPost(data))
      return { post: (message) => channel.postMessage(message), close: () => channel.close() }
    },
    newId: () => crypto.randomUUID(),
    decode: (base64) => atob(base64),
  }
}
