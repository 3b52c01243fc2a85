import { describe, expect, test } from 'vitest'
import type { Signals } from '../src/core/signals.ts'
import { Store } from '../src/core/store.ts'
import { DocumentHistory, type Point, placeSignals, type TextEdit } from '../src/positions.ts'

/** A small generator that gives the same numbers for the same seed. */
function seeded(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % below
  }
}

interface Char {
  readonly id: number
  readonly char: string
}

/** The naive document: every character has an identity, so that one can see where it went. */
class Naive {
  chars: Char[] = []
  #serial = 0

  write(text: string): Char[] {
    return [...text].map((char) => ({ id: ++this.#serial, char }))
  }

  point(offset: number): Point {
    const before = this.chars.slice(0, offset).map(({ char }) => char)
    const lastBreak = before.lastIndexOf('\n')
    return { line: before.filter((char) => char === '\n').length, column: before.length - lastBreak - 1 }
  }

  edit(random: (below: number) => number): TextEdit {
    const from = random(this.chars.length + 1)
    const to = Math.min(this.chars.length, from + (random(3) === 0 ? random(6) : 0))
    const text = Array.from({ length: random(5) }, () => 'ab\n'[random(3)]).join('')
    const edit = { from, to, start: this.point(from), end: this.point(to), text }
    this.chars.splice(from, to - from, ...this.write(text))
    return edit
  }

  size() {
    const lines = this.chars
      .map(({ char }) => char)
      .join('')
      .split('\n')
    return {
      length: this.chars.length,
      lines: lines.length,
      lineLength: (line: number) => lines[line]?.length ?? 0,
    }
  }
}

describe('a position between two characters that still exist stays between them', () => {
  test.each(Array.from({ length: 24 }, (_, seed) => seed))('seed %i', (seed) => {
    const random = seeded(seed)
    const document = new Naive()
    document.chars = document.write('the quick\nbrown fox\n\njumps over')
    const bias = seed % 2 === 0 ? 'after' : 'before'
    const history = new DocumentHistory({ bias })
    const marks: { version: number; offset: number; point: Point; left?: Char; right?: Char }[] = []
    for (let version = 1; version <= 16; version++) {
      for (let i = 0; i < 3; i++) {
        const offset = random(document.chars.length + 1)
        const [left, right] = [document.chars[offset - 1], document.chars[offset]]
        marks.push({
          version: version - 1,
          offset,
          point: document.point(offset),
          ...(left ? { left } : {}),
          ...(right ? { right } : {}),
        })
      }
      const edits = Array.from({ length: random(3) + 1 }, () => document.edit(random))
      history.advance(version, edits, document.size())
      for (const mark of marks) {
        const { state, data } = history.place(mark.offset, mark.version)
        const at = data as number
        expect(at).toBeGreaterThanOrEqual(0)
        expect(at).toBeLessThanOrEqual(document.chars.length)
        // By lines and columns it is the same place.
        const byLine = history.place({ ...mark.point }, mark.version)
        expect(byLine.data).toEqual(document.point(at))
        expect(byLine.state).toBe(state)
        const left = mark.left && document.chars.indexOf(mark.left)
        const right = mark.right && document.chars.indexOf(mark.right)
        // Both still there: between them. One of them gone: on the right side of the other.
        if (left !== undefined && left >= 0) expect(left).toBeLessThan(at)
        if (right !== undefined && right >= 0) expect(right).toBeGreaterThanOrEqual(at)
        if ((left ?? 0) >= 0 && (right ?? 0) >= 0) expect(state).toBe('placed')
      }
    }
  })
})

describe('versions', () => {
  test('A51: a newer position is pending, and clamped when the text got there without it', () => {
    const history = new DocumentHistory({ version: 480 })
    const cursor = { line: 12, col: 8, color: 'red' }
    expect(history.place(cursor, 482).state).toBe('pending')
    history.advance(490, null, { lines: 3, lineLength: () => 5 })
    expect(history.place(cursor, 482)).toEqual({ state: 'clamped', data: { line: 2, col: 5, color: 'red' } })
    history.advance(491)
    expect(history.place(cursor, 482).state).toBe('hidden')
  })

  test('an older one is moved through all edits since, a forgotten one is not guessed', () => {
    const history = new DocumentHistory({ version: 1, keep: 2 })
    history.advance(2, [{ from: 0, text: 'ab' }])
    history.advance(3, [{ from: 0, to: 1 }])
    expect(history.place(5, 1)).toEqual({ state: 'placed', data: 6 })
    expect(history.place({ offset: 5 }, 2)).toEqual({ state: 'placed', data: { offset: 4 } })
    expect(history.place(5)).toEqual({ state: 'placed', data: 5 })
    history.advance(4, [])
    expect(history.place(5, 1).state).toBe('hidden')
    history.advance(1)
    expect(history.place(5, 2).state).toBe('pending')
  })

  test('what it was in is deleted: clamped to where that was', () => {
    const history = new DocumentHistory()
    history.advance(1, [{ start: { line: 1, column: 2 }, end: { line: 3, column: 1 }, text: '' }])
    expect(history.place({ line: 2, column: 9 }, 0)).toEqual({
      state: 'clamped',
      data: { line: 1, column: 2 },
    })
    expect(history.place({ line: 3, column: 4 }, 0)).toEqual({
      state: 'placed',
      data: { line: 1, column: 5 },
    })
    expect(history.place({ line: 7, column: 4 }, 0)).toEqual({
      state: 'placed',
      data: { line: 5, column: 4 },
    })
  })

  test('an edit in the other coordinates hides, for it cannot be followed', () => {
    const history = new DocumentHistory()
    history.advance(1, [{ from: 0, text: 'x' }])
    expect(history.place({ line: 0, column: 1 }, 0).state).toBe('hidden')
    expect(history.place({ anchor: 1, head: 3 }, 0)).toEqual({
      state: 'placed',
      data: { anchor: 2, head: 4 },
    })
  })

  test('opaque values are left alone', () => {
    const history = new DocumentHistory()
    history.advance(1, [{ from: 0, text: 'xyz' }])
    const relative = { type: null, tname: 'text', item: { client: 7, clock: 3 }, assoc: 0 }
    for (const data of ['abc', true, [1, 2], relative, { anchor: relative, head: relative }, {}]) {
      expect(history.place(data, 0)).toEqual({ state: 'placed', data })
    }
  })

  test('an own mapping takes the place of the edits; what it throws hides', () => {
    const history = new DocumentHistory({
      map: (data, from, to) => {
        if (data === 'bad') throw new Error('mine')
        return data === 'gone' ? null : `${String(data)}:${from}:${to}`
      },
    })
    history.advance(2)
    expect(history.place('a', 1)).toEqual({ state: 'placed', data: 'a:1:2' })
    expect(history.place('gone', 1).state).toBe('hidden')
    expect(history.place('bad', 1).state).toBe('hidden')
    expect(history.place('a', 3).state).toBe('pending')
  })
})

test('A51: nothing that others say makes it throw', () => {
  const history = new DocumentHistory({ version: 5 })
  history.advance(6, [{ from: 2, to: 4, start: { line: 0, column: 2 }, end: { line: 0, column: 4 } }])
  history.advance(7, [{ from: 2, to: 4, start: { line: 0, column: 2 }, end: { line: 0, column: 4 } }], {
    length: 10,
    lines: 3,
  })
  const odd = [-1, 0.5, 1e12, -1e12, Number.NaN, Number.POSITIVE_INFINITY, undefined, null, '7', {}, [], true]
  for (const value of odd) {
    const shapes = [value, { line: value, col: 1 }, { line: 1, col: value }, { col: value }, { line: value }]
    const nested = { anchor: value, head: { offset: value }, cursor: { start: { end: value } } }
    for (const data of [...shapes, { offset: value }, nested]) {
      for (const version of [...odd, 5, 6, 7, 8]) {
        const { state } = history.place(data, version)
        expect(['placed', 'clamped', 'pending', 'hidden']).toContain(state)
      }
    }
  }
  expect(history.place({ line: -3, col: 1.7 }, 7)).toEqual({ state: 'clamped', data: { line: 0, col: 1 } })
  expect(history.place({ line: 1e12, col: 1 }, 7)).toEqual({ state: 'clamped', data: { line: 2, col: 0 } })
  expect(history.place({ col: 1 }, 7).state).toBe('hidden')
})

test('signals are placed anew with every version, and keep identity between', () => {
  const signal = { user: 'ana', connection: 'c1', kind: 'cursor', data: 4, docVersion: 2, at: 0 }
  const signals = new Store<Signals>(new Map([['c1', signal]]), () => {})
  const history = new DocumentHistory({ version: 1 })
  const placed = placeSignals(signals, history)
  const seen: string[] = []
  const stop = placed.subscribe((all) => seen.push(`${all.get('c1')?.state} ${all.get('c1')?.data}`))
  expect(placed.get()).toBe(placed.get())
  history.advance(2, [{ from: 0, text: 'ab' }])
  history.advance(3, [{ from: 0, text: 'ab' }])
  signals.set(new Map())
  stop()
  history.advance(4)
  expect(seen).toEqual(['pending 4', 'placed 4', 'placed 6', 'undefined undefined'])
})
