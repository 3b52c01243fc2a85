import { expect } from 'vitest'
import { createClient } from '../../src/core/client.ts'
import type { Member } from '../../src/core/member.ts'
import { nodeEnvironment, url } from '../server.ts'

let serial = 0

/** A room, and what somebody in it who is in no browser sees of the others. */
export interface Watch {
  readonly room: string
  /** The page of the demo in this room. */
  address(user: string, base?: string): string
  /** Every join and leave that was told, in order: `join ana`, `leave ana closed`. */
  readonly events: readonly string[]
  member(user: string): Member | undefined
  /** Waits until this user is here with so many connections; 0 = is gone. */
  until(user: string, connections: number, ms?: number): Promise<void>
  close(): void
}

export async function watch(): Promise<Watch> {
  const room = `watched:${process.pid}-${++serial}`
  const client = createClient({ url, guest: { user: 'watcher', name: 'Watcher' } }, nodeEnvironment())
  const entered = client.enter(room)
  const events: string[] = []
  const member = (user: string) => entered.others.get().find((member) => member.user === user)
  const eventually = (fn: () => unknown, ms: number) => expect.poll(fn, { timeout: ms, interval: 20 })
  await eventually(() => entered.self.get()?.user, 10_000).toBe('watcher')
  entered.on('join', ({ member }) => events.push(`join ${member.user}`))
  entered.on('leave', ({ member, reason }) => events.push(`leave ${member.user} ${reason}`))
  return {
    room,
    address: (user, base = url) => `${base}/?room=${room}&user=${user}&name=${user}`,
    events,
    member,
    until: (user, connections, ms = 10_000) =>
      eventually(() => member(user)?.connections ?? 0, ms).toBe(connections),
    close: () => client.close(),
  }
}
