/** What the tabs of a browser have in common. */
export interface Tabs {
  /** Calls `held` when the lock is ours, which it is until the returned function is called, or the tab is gone. */
  lock(name: string, held: () => void): () => void
  /** Posts go to all others that have a channel of this name. */
  channel(name: string, onPost: (post: unknown) => void): { post(message: object): void; close(): void }
  newId(): string
  /** From base64 to text. */
  decode(base64: string): string
}

/** Locks are there in secure contexts alone. */
export function browserTabs(): Tabs | null {
  if (typeof navigator === 'undefined' || !navigator.locks || typeof BroadcastChannel !== 'function')
    return null
  return {
    lock: (name, held) => {
      const abort = new AbortController()
      let release = () => {}
      const until = new Promise<void>((resolve) => {
        release = resolve
      })
      navigator.locks
        .request(name, { signal: abort.signal }, () => {
          held()
          return until
        })
        // Given up before it was ours.
        .catch(() => {})
      return () => {
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
