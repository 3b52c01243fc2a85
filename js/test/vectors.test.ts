import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { decodeEvent } from '../src/core/eventstream.ts'
import { decodeFrames, type Frame, type RosterFrame } from '../src/core/frame.ts'
import { emptyRoster, reduce } from '../src/core/roster.ts'

// The vectors that the Go packages run too: what a client holds after each sequence of events.

interface Vector {
  name: string
  room: string
  steps: { event: string; data: string }[]
  expect: {
    known: boolean
    needsSnapshot: boolean
    epoch?: string
    version?: number
    mode?: string
    count?: number
    roster: { user: string; status: string; connections: number; stale?: true }[]
  }
}

const vectors: Vector[] = JSON.parse(
  readFileSync(new URL('../../spec/vectors/rosters.json', import.meta.url), 'utf8'),
)

const types = new Set(['snapshot', 'mode', 'diff', 'count', 'resumed'])

function isRosterFrame(frame: Frame | null): frame is RosterFrame {
  return frame !== null && types.has(frame.type)
}

function frameOf(step: { event: string; data: string }, transport: string, room: string): Frame | null {
  if (transport === 'sse') return decodeEvent(step.event, step.data, room)
  const body = step.data.trim().slice(1)
  const text = `{"type":${JSON.stringify(step.event)}${body === '}' ? '' : ','}${body}`
  return decodeFrames(text)[0] ?? null
}

describe.each(['sse', 'websocket'])('the roster after %s events', (transport) => {
  test.each(vectors.map((v) => [v.name, v] as const))('%s', (_, vector) => {
    let roster = emptyRoster
    let missing = false
    for (const step of vector.steps) {
      const frame = frameOf(step, transport, vector.room)
      if (!isRosterFrame(frame) || frame.room !== vector.room) continue
      const next = reduce(roster, frame, 0, missing)
      roster = next.roster
      if (next.gap !== null) missing = true
      else if (frame.type === 'snapshot' || frame.type === 'mode') missing = false
    }
    const got = {
      known: roster.mode !== null,
      needsSnapshot: missing,
      ...(roster.mode !== null
        ? {
            epoch: roster.epoch,
            version: roster.version,
            mode: roster.mode as string,
            // The number shown is that of the rows, stale ones included.
            count: roster.mode === 'full' ? roster.members.size : roster.count,
          }
        : {}),
      roster: [...roster.members.values()]
        .map((m) => ({
          user: m.user,
          status: m.status as string,
          connections: m.connections,
          ...(m.stale ? { stale: true as const } : {}),
        }))
        .sort((a, b) => (a.user < b.user ? -1 : 1)),
    }
    const want = {
      ...vector.expect,
      roster: [...vector.expect.roster].sort((a, b) => (a.user < b.user ? -1 : 1)),
    }
    expect(got).toEqual(want)
  })
})

test('data of __proto__ pollutes nothing', () => {
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
})
