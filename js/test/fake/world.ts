import { vi } from 'vitest'
import type { Page, PageEvent, PageTarget } from '../../src/core/environment.ts'
import { FakeLink } from '../../src/testing/link.ts'
import type { FakeOptions } from '../../src/testing/server.ts'
import type { FakeSocket } from '../../src/testing/socket.ts'

export class FakePage implements Page {
  readonly window = new FakeTarget()
  readonly document = Object.assign(new FakeTarget(), { hidden: false })

  input(): void {
    this.window.say('keydown')
  }
  setHidden(hidden: boolean): void {
    this.document.hidden = hidden
    this.document.say('visibilitychange')
  }
  hide(): void {
    this.window.say('pagehide', true)
  }
  /** `restored` from the back-forward cache, network back, unfrozen. */
  wake(why: 'restored' | 'online' | 'resumed'): void {
    if (why === 'restored') this.window.say('pageshow', true)
    else if (why === 'online') this.window.say('online')
    else this.document.say('resume')
  }
  get listeners(): number {
    return this.window.listeners + this.document.listeners
  }
}

class FakeTarget implements PageTarget {
  readonly #listening = new Set<readonly [type: string, fn: (event: PageEvent) => void]>()

  addEventListener(type: string, fn: (event: PageEvent) => void, options: object): void {
    const own = [type, fn] as const
    this.#listening.add(own)
    const { signal } = options as { readonly signal: AbortSignal }
    signal.addEventListener('abort', () => this.#listening.delete(own))
  }
  say(type: string, persisted = false): void {
    for (const [of, fn] of this.#listening) if (of === type) fn({ type, persisted })
  }
  get listeners(): number {
    return this.#listening.size
  }
}

/** A fake server with virtual time, and clients of it. Ends with `world.end()`. */
export class World extends FakeLink {
  constructor(options: FakeOptions = {}) {
    vi.useFakeTimers()
    super(options)
  }

  /** Lets time pass; 0 = what is under way. */
  async pass(ms = 0): Promise<void> {
    await vi.advanceTimersByTimeAsync(ms)
    // Promises of streams need a few turns of their own.
    for (let i = 0; i < 20; i++) await Promise.resolve()
  }

  get socket(): FakeSocket {
    return this.sockets.at(-1) as FakeSocket
  }

  users(room: string): string[] {
    return this.server
      .roster(room)
      .map(({ user }) => user)
      .sort()
  }

  end(): void {
    this.server.stop()
    vi.useRealTimers()
  }
}
