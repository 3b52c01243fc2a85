import type { Tabs } from './core/environment.ts'

/**
 * Whether streams to the server at `address` are many, and none is in the way of another: over HTTP/2 or
 * newer, as the browser noted it of earlier requests. Of another origin it may not say.
 */
export function hasManyStreams(address: string, entries: PerformanceEntryList): boolean {
  const { origin } = new URL(address)
  const last = entries
    .filter(({ name }) => name.startsWith(`${origin}/`))
    .map((entry) => (entry as PerformanceResourceTiming).nextHopProtocol)
    .filter(Boolean)
    .at(-1)
  return /^h[23]/.test(last ?? '')
}

/** Those to share event streams with, without being told to. */
export function streamTabs(address: string): Tabs | null {
  return hasManyStreams(address, performance.getEntries()) ? null : browserTabs()
}

/** Locks are there in secure contexts alone. */
export function browserTabs(): Tabs | null {
  if (typeof navigator === 'undefined' || !navigator.locks || typeof BroadcastChannel !== 'function')
    return null
  return {
    lock: (name, on, steal = false) => {
      const abort = new AbortController()
      let held = false
      let release = () => {}
      const until = new Promise<void>((resolve) => {
        release = resolve
      })
      navigator.locks
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
      channel.onmessage = ({ data }) => onPost(data)
      return { post: (message) => channel.postMessage(message), close: () => channel.close() }
    },
    newId: () => crypto.randomUUID(),
    decode: (base64) => atob(base64),
  }
}
