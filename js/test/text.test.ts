import { describe, expect, test } from 'vitest'
import {
  apply,
  compose,
  type Delta,
  difference,
  type Edit,
  fromEdits,
  movePlace,
  toEdits,
  transform,
} from '../../web/src/delta.ts'
import { type News, Refusal, SharedText } from '../../web/src/shared.ts'

/* The text of the page that several people edit. */

/** Numbers in [0, 1) that are the same in each run. */
function newRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const pieces = ['a', 'bc', 'é', '🦊', '\n', ' word', '']

/** Some edit of a text that cuts no character in two. */
function someDelta(text: string, random: () => number): Delta {
  const letters = [...text]
  const from = Math.floor(random() * (letters.length + 1))
  const removed = random() < 0.5 ? Math.floor(random() * Math.min(4, letters.length - from + 1)) : 0
  const length = (some: string[]) => some.join('').length
  const at = length(letters.slice(0, from))
  const insert = pieces[Math.floor(random() * pieces.length)] ?? ''
  return fromEdits([{ from: at, to: at + length(letters.slice(from, from + removed)), text: insert }])
}

describe('changes of a text', () => {
  test('moved over each other they meet, whichever came first', () => {
    const random = newRandom(1)
    for (let i = 0; i < 3_000; i++) {
      let text = 'The 🦊 jumps\nover'
      text = apply(text, someDelta(text, random))
      let a = someDelta(text, random)
      a = compose(a, someDelta(apply(text, a), random))
      let b = someDelta(text, random)
      b = compose(b, someDelta(apply(text, b), random))
      const one = apply(apply(text, a), transform(b, a, false))
      expect(apply(apply(text, b), transform(a, b, true))).toBe(one)
      expect(one.isWellFormed()).toBe(true)
      expect(apply(text, fromEdits(toEdits(a)))).toBe(apply(text, a))
    }
  })

  test.each([
    ['aaa', 'aaaa', 2, [{ from: 1, to: 1, text: 'a' }]],
    ['aaa', 'aa', 1, [{ from: 1, to: 2, text: '' }]],
    ['abc', 'axc', 2, [{ from: 1, to: 2, text: 'x' }]],
    ['👍', '👎', 2, [{ from: 0, to: 2, text: '👎' }]],
    ['x👍', 'x', 1, [{ from: 1, to: 3, text: '' }]],
    ['one two', 'two', 0, [{ from: 0, to: 4, text: '' }]],
    ['', 'abc', 3, [{ from: 0, to: 0, text: 'abc' }]],
    ['abc', 'abc', 0, []],
  ])('from %j to %j with the caret at %i', (before, after, caret, edits) => {
    const delta = difference(before, after, caret)
    expect(toEdits(delta)).toEqual(edits)
    expect(apply(before, delta)).toBe(after)
  })

  test('places stay with their letters', () => {
    const delta = fromEdits([{ from: 2, to: 4, text: 'xyz' }])
    expect([0, 1, 2, 3, 4, 5].map((place) => movePlace(place, delta))).toEqual([0, 1, 5, 5, 5, 6])
  })
})

/** The server of the text, as `rollcall dev` has it. */
class FakeText {
  text = ''
  epoch = 'e1'
  changes: { id: string; edits: readonly Edit[] }[] = []

  since(epoch: string, version: number): News {
    const known = epoch === this.epoch && version >= 0
    return {
      epoch: this.epoch,
      version: this.changes.length,
      changes: known ? this.changes.slice(version) : [],
      text: known ? null : this.text,
    }
  }

  write(epoch: string, version: number, id: string, edits: readonly Edit[]): News {
    if (epoch === this.epoch && version === this.changes.length) {
      this.text = apply(this.text, fromEdits(edits))
      this.changes.push({ id, edits })
    }
    return this.since(epoch, version)
  }
}

describe('a shared text', () => {
  test('all see the same in the end, whatever was typed at once', async () => {
    for (let seed = 1; seed <= 40; seed++) {
      const random = newRandom(seed)
      const server = new FakeText()
      server.text = 'Once upon a 🦊 time'
      const timers: (() => void)[] = []
      const settle = () => new Promise<void>((resolve) => setImmediate(resolve))
      // Each question and each answer waits for its turn.
      const pass = async <T>(fn: () => T): Promise<T> => {
        await new Promise<void>((resolve) => timers.push(resolve))
        const answer = fn()
        await new Promise<void>((resolve) => timers.push(resolve))
        return answer
      }
      const people = [0, 1, 2].map(() => {
        const screen = { text: '' }
        const text: SharedText = new SharedText(
          {
            read: (epoch, since) => pass(() => server.since(epoch, since)),
            write: (epoch, version, id, edits) => pass(() => server.write(epoch, version, id, edits)),
          },
          {
            changed: (delta) => {
              screen.text = apply(screen.text, delta)
            },
            told: () => {},
          },
        )
        text.look()
        return { text, screen }
      })
      const step = async () => {
        const index = Math.floor(random() * timers.length)
        timers.splice(index, 1)[0]?.()
        await settle()
      }
      for (let i = 0; i < 6; i++) await step()
      for (let i = 0; i < 120; i++) {
        const person = people[Math.floor(random() * people.length)]
        if (person !== undefined && random() < 0.4) {
          const delta = someDelta(person.text.view, random)
          person.screen.text = apply(person.screen.text, delta)
          person.text.edit(delta)
        }
        if (random() < 0.2) person?.text.look()
        await step()
      }
      for (let round = 0; round < 400 && timers.length > 0; round++) await step()
      for (const { text } of people) text.look()
      await settle()
      for (let round = 0; round < 400 && timers.length > 0; round++) await step()
      for (const { text, screen } of people) {
        expect(text.view, `seed ${seed}`).toBe(server.text)
        expect(text.version).toBe(server.changes.length)
        expect(screen.text).toBe(text.view)
        text.close()
      }
    }
  })

  const flush = async () => {
    for (let i = 0; i < 20; i++) await Promise.resolve()
  }

  function open(server: FakeText, write = server.write.bind(server)) {
    const text: SharedText = new SharedText(
      { read: async (epoch, since) => server.since(epoch, since), write: async (...a) => write(...a) },
      { changed: () => {}, told: () => {} },
    )
    text.look()
    return text
  }

  test('a change whose answer was lost is not made twice', async () => {
    const { vi } = await import('vitest')
    vi.useFakeTimers()
    const server = new FakeText()
    let lost = 0
    const text = open(server, (...change) => {
      const answer = server.write(...change)
      if (lost++ === 0) throw new TypeError('network')
      return answer
    })
    await flush()
    text.edit([{ insert: 'once' }])
    await flush()
    expect(text.state).toBe('unreachable')
    expect(text.view).toBe('once')
    await vi.advanceTimersByTimeAsync(1_100)
    expect([server.text, text.view, text.state]).toEqual(['once', 'once', 'saved'])
    vi.useRealTimers()
  })

  test('what the server refuses is taken back, and the rest goes on', async () => {
    const server = new FakeText()
    const text = open(server, (epoch, version, id, edits) => {
      if (edits[0]?.text === 'long') throw new Refusal(413, 'too long')
      return server.write(epoch, version, id, edits)
    })
    await flush()
    text.edit([{ insert: 'a' }])
    await flush()
    text.edit([{ keep: 1 }, { insert: 'long' }])
    await flush()
    expect([text.view, text.state]).toEqual(['a', 'refused'])
    text.edit([{ keep: 1 }, { insert: 'b' }])
    await flush()
    expect([server.text, text.view, text.state]).toEqual(['ab', 'ab', 'saved'])
  })

  test('a server that forgot the text is believed; a place in the old text is shown nowhere', async () => {
    const server = new FakeText()
    const text = open(server)
    await flush()
    text.edit([{ insert: 'old' }])
    await flush()
    const { history } = text
    expect(history.place({ anchor: 1, head: 3 }, 1).state).toBe('placed')
    server.epoch = 'e2'
    server.changes = []
    server.text = 'new'
    text.look()
    await flush()
    expect(text.view).toBe('new')
    expect(text.history.place({ anchor: 1, head: 3 }, 1).state).toBe('pending')
  })

  test('nothing changes on the screen while a character is being composed', async () => {
    const server = new FakeText()
    const text = open(server)
    await flush()
    text.hold(true)
    server.write('e1', 0, 'x', [{ from: 0, to: 0, text: 'theirs' }])
    text.look()
    await flush()
    expect(text.view).toBe('')
    text.edit([{ insert: 'に' }])
    text.hold(false)
    await flush()
    expect(text.view).toBe(server.text)
    expect(text.view).toContain('に')
  })
})
