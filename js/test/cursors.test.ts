import { describe, expect, test } from 'vitest'
import type { Signal, Signals } from '../src/core/signals.ts'
import { Store } from '../src/core/store.ts'
import { type Cursor, CursorMotion, type Display, watchCursors } from '../src/cursors.ts'

/** Plays values that come at some times on a display of 60 frames a second. */
function play(motion: CursorMotion, values: [at: number, x: number][], untilMs: number) {
  const shown: { at: number; x: number; opacity: number }[] = []
  const left = [...values]
  for (let at = 0; at <= untilMs; at += 1000 / 60) {
    while (left[0] && left[0][0] <= at) {
      const [when, x] = left.shift() as [number, number]
      motion.push('c', { x, y: -x }, when)
    }
    const view = motion.frame(at).get('c')
    if (view) shown.push({ at, x: view.x, opacity: view.opacity })
  }
  return shown
}

const steps = (shown: { x: number }[]) => shown.slice(1).map(({ x }, i) => x - (shown[i]?.x ?? x))

describe('motion', () => {
  test('20 values a second are a smooth line: every frame moves, none jumps, none goes back', () => {
    const values = Array.from({ length: 40 }, (_, i): [number, number] => [i * 50, i * 10])
    const moved = steps(play(new CursorMotion(), values, 2_000).filter(({ at }) => at > 300 && at < 1_900))
    expect(Math.min(...moved)).toBeGreaterThan(0)
    expect(Math.max(...moved)).toBeLessThan(7)
  })

  test('values that come irregularly are still a line that never goes back', () => {
    const late = [0, 22, 3, 31, 12, 40, 7]
    const values = Array.from({ length: 60 }, (_, i): [number, number] => [
      i * 50 + (late[i % 7] ?? 0),
      i * 10,
    ])
    const shown = play(new CursorMotion(), values, 3_500)
    const moved = steps(shown.filter(({ at }) => at > 1_000 && at < 2_900))
    expect(Math.min(...moved)).toBeGreaterThanOrEqual(0)
    expect(moved.filter((step) => step === 0).length).toBeLessThan(moved.length / 10)
    expect(Math.max(...moved)).toBeLessThan(14)
  })

  test('no overshoot: it turns where it turned, and ends where it ended', () => {
    const values: [number, number][] = [...Array(20).keys()].map((i) => [
      i * 50,
      i < 10 ? i * 10 : (19 - i) * 10,
    ])
    const shown = play(new CursorMotion(), values, 2_000)
    const xs = shown.map(({ x }) => x)
    expect(Math.max(...xs)).toBeLessThanOrEqual(90)
    expect(Math.min(...xs)).toBeGreaterThanOrEqual(0)
    expect(xs.at(-1)).toBe(0)
  })

  test('the delay follows the pace: slow values are shown later, fast ones sooner', () => {
    const lag = (everyMs: number) => {
      const values = Array.from({ length: 60 }, (_, i): [number, number] => [i * everyMs, i * everyMs])
      const shown = play(new CursorMotion(), values, 59 * everyMs)
      const last = shown.at(-1)
      return (last?.at ?? 0) - (last?.x ?? 0)
    }
    expect(lag(50)).toBeLessThan(90)
    expect(lag(200)).toBeGreaterThan(190)
    expect(lag(200)).toBeLessThan(270)
    expect(lag(17)).toBeLessThan(60)
  })

  test('after a rest it starts from where it rested, and is there soon', () => {
    const motion = new CursorMotion()
    const shown = play(
      motion,
      [
        [0, 0],
        [2_000, 100],
      ],
      2_400,
    )
    const before = shown.filter(({ at }) => at < 2_000).map(({ x }) => x)
    expect(new Set(before)).toEqual(new Set([0]))
    const after = shown.filter(({ at }) => at > 2_000)
    expect(after[0]?.x).toBeLessThan(40)
    expect(after.find(({ at }) => at > 2_120)?.x).toBe(100)
  })

  test('at rest it fades, and is back at the next move', () => {
    const shown = play(
      new CursorMotion(),
      [
        [0, 0],
        [6_000, 1],
      ],
      6_100,
    )
    const at = (ms: number) => shown.find((view) => view.at >= ms)?.opacity ?? 0
    expect(at(3_900)).toBe(1)
    expect(at(4_300)).toBeLessThan(1)
    expect(at(4_300)).toBeGreaterThan(0.3)
    expect(at(4_700)).toBe(0.3)
    expect(at(6_050)).toBe(1)
  })

  test('with reduced motion it is where the last value says, at once', () => {
    const shown = play(
      new CursorMotion({ reducedMotion: true }),
      [
        [0, 0],
        [50, 100],
      ],
      100,
    )
    expect(new Set(shown.map(({ x }) => x))).toEqual(new Set([0, 100]))
    expect(shown.find(({ at }) => at >= 50)?.x).toBe(100)
  })

  test('what is no place is ignored', () => {
    const motion = new CursorMotion()
    for (const place of [
      null,
      1,
      'x',
      {},
      { x: 1 },
      { x: '1', y: 1 },
      { x: Number.NaN, y: 0 },
      [],
      { x: 0, y: Number.NEGATIVE_INFINITY },
    ]) {
      motion.push('c', place, 0)
    }
    expect(motion.frame(0).size).toBe(0)
    motion.push('c', { x: 1, y: 1 }, 10)
    motion.push('c', { x: -1e12, y: 0.5 }, 5)
    expect(motion.frame(1_000).get('c')).toMatchObject({ x: -1e12, y: 0.5 })
  })
})

class FakeDisplay implements Display {
  time = 0
  frames = new Set<() => void>()
  timers = new Set<{ at: number; fn: () => void }>()
  now = () => this.time
  requestFrame = (fn: () => void) => {
    this.frames.add(fn)
    return fn
  }
  cancelFrame = (frame: unknown) => this.frames.delete(frame as () => void)
  setTimer = (fn: () => void, ms: number) => {
    const timer = { at: this.time + ms, fn }
    this.timers.add(timer)
    return timer
  }
  clearTimer = (timer: unknown) => this.timers.delete(timer as { at: number; fn: () => void })
  reducedMotion = () => false
  pass(ms: number): void {
    for (const end = this.time + ms; this.time < end; this.time += 16) {
      for (const fn of [...this.frames]) {
        this.frames.delete(fn)
        fn()
      }
      for (const timer of [...this.timers]) {
        if (timer.at > this.time) continue
        this.timers.delete(timer)
        timer.fn()
      }
    }
  }
}

test('watching draws while something moves, and at rest asks for no frame', () => {
  const display = new FakeDisplay()
  const signals = new Store<Signals>(new Map(), () => {})
  const drawn: (readonly Cursor[])[] = []
  const stop = watchCursors(signals, (cursors) => drawn.push(cursors), {}, display)
  const say = (x: number) => {
    const signal: Signal = {
      user: 'ana',
      connection: 'c1',
      kind: 'cursor',
      data: { x, y: 0 },
      docVersion: null,
      at: display.time,
    }
    signals.set(new Map([['c1', signal]]))
  }
  display.pass(100)
  expect(drawn).toEqual([])
  for (let i = 0; i < 10; i++) {
    say(i * 10)
    display.pass(48)
  }
  display.pass(400)
  expect(drawn.length).toBeGreaterThan(20)
  expect(drawn.at(-1)).toEqual([{ connection: 'c1', user: 'ana', x: 90, y: 0, opacity: 1 }])
  expect(display.frames.size).toBe(0)
  expect(display.timers.size).toBe(1)
  display.pass(6_000)
  expect(drawn.at(-1)?.[0]?.opacity).toBe(0.3)
  expect([display.frames.size, display.timers.size]).toEqual([0, 0])
  signals.set(new Map())
  display.pass(100)
  expect(drawn.at(-1)).toEqual([])
  say(1)
  stop()
  expect([display.frames.size, display.timers.size]).toEqual([0, 0])
})
