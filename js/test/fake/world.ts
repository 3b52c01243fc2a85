import { vi } from 'vitest'
import type { Page } from '../../src/core/environment.ts'
import { FakeLink } from '../../src/testing/link.ts'
import type { FakeOptions } from '../../src/testing/server.ts'
import type { FakeSocket } from '../../src/testing/socket.ts'

export class FakePage implements Page {
  isHidden = false
  readonly #fns = {
    input: new Set<() => void>(),
    visibility: new Set<() => void>(),
    hide: new Set<() => void>(),
  }
  readonly #wake = new Set<(why: 'restored' | 'online' | 'resumed') => void>()

  hidden = () => this.isHidden
  onInput = (fn: () => void) => add(this.#fns.input, fn)
  onVisibility = (fn: () => void) => add(this.#fns.visibility, fn)
  onHide = (fn: () => void) => add(this.#fns.hide, fn)
  onWake = (fn: (why: 'restored' | 'online' | 'resumed') => void) => add(this.#wake, fn)

  input(): void {
    for (const fn of this.#fns.input) fn()
  }
  setHidden(hidden: boolean): void {
    this.isHidden = hidden
    for (const fn of this.#fns.visibility) fn()
  }
  hide(): void {
    for (const fn of this.#fns.hide) fn()
  }
  wake(why: 'restored' | 'online' | 'resumed'): void {
    for (const fn of this.#wake) fn(why)
  }
  get listeners(): number {
    return this.#fns.input.size + this.#fns.visibility.size + this.#fns.hide.size + this.#wake.size
  }
}

function add<T>(set: Set<T>, item: T): () => void {
  set.add(item)
  return () => set.delete(item)
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
