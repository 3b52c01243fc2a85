/*
 * A change of a text, from its beginning to its end: keep so much, put this in, take so much out;
 * what is not named is kept. Lengths are UTF-16 units. Two changes that were made at the same time
 * on the same text are moved over each other by `transform`:
 *
 *   apply(apply(text, a), transform(b, a, false)) === apply(apply(text, b), transform(a, b, true))
 */

export type Step = { readonly keep: number } | { readonly insert: string } | { readonly remove: number }
export type Delta = readonly Step[]

/** As it goes over the wire: replaces `from` to `to`, in the text as the edits before left it. */
export interface Edit {
  readonly from: number
  readonly to: number
  readonly text: string
}

/** `a`, then `b`, as one change. */
export function compose(a: Delta, b: Delta): Delta {
  const [left, right, out] = [new Reader(a), new Reader(b), new Builder()]
  while (left.more || right.more) {
    if (right.kind === 'insert') out.push(right.next())
    else if (left.kind === 'remove') out.push(left.next())
    else {
      const length = Math.min(left.length, right.length)
      const [first, then] = [left.next(length), right.next(length)]
      if ('keep' in then) out.push(first)
      else if ('keep' in first) out.push(then)
    }
  }
  return out.done()
}

/** `a` as it is after `b`. Where both put something in at one place, `first` puts that of `a` first. */
export function transform(a: Delta, b: Delta, first: boolean): Delta {
  const [mine, other, out] = [new Reader(a), new Reader(b), new Builder()]
  while (mine.more) {
    if (mine.kind === 'insert' && (first || other.kind !== 'insert')) out.push(mine.next())
    else if (other.kind === 'insert') out.push({ keep: lengthOf(other.next()) })
    else {
      const length = Math.min(mine.length, other.length)
      const [step, theirs] = [mine.next(length), other.next(length)]
      if ('keep' in theirs) out.push(step)
    }
  }
  return out.done()
}

export function apply(text: string, delta: Delta): string {
  let [at, out] = [0, '']
  for (const step of delta) {
    if ('insert' in step) out += step.insert
    else if ('remove' in step) at += step.remove
    else {
      out += text.slice(at, at + step.keep)
      at += step.keep
    }
  }
  return out + text.slice(at)
}

/** Where a place of the text is after the change. What is put in at the place itself goes before it. */
export function movePlace(place: number, delta: Delta): number {
  let [at, moved] = [0, place]
  for (const step of delta) {
    if (at > place) break
    if ('insert' in step) moved += step.insert.length
    else if ('remove' in step) {
      moved -= Math.min(step.remove, place - at)
      at += step.remove
    } else at += step.keep
  }
  return moved
}

export function fromEdits(edits: readonly Edit[]): Delta {
  return edits.reduce<Delta>((delta, { from, to, text }) => {
    const edit = new Builder()
    edit.push({ keep: from })
    edit.push({ insert: text })
    edit.push({ remove: to - from })
    return compose(delta, edit.done())
  }, [])
}

export function toEdits(delta: Delta): Edit[] {
  const edits: Edit[] = []
  let at = 0
  let text = ''
  const put = (removed: number) => {
    if (text === '' && removed === 0) return
    edits.push({ from: at, to: at + removed, text })
    at += text.length
    text = ''
  }
  for (const step of delta) {
    if ('insert' in step) text += step.insert
    else if ('remove' in step) put(step.remove)
    else {
      put(0)
      at += step.keep
    }
  }
  put(0)
  return edits
}

/** What changed between two texts, given where the caret stands in the second. No character is cut. */
export function difference(before: string, after: string, caret = after.length): Delta {
  if (before === after) return []
  let tail = after.length - caret
  // What is behind the caret did not change, as a rule: so it is known which of several equal letters it was.
  if (tail > before.length || !before.endsWith(after.slice(caret))) tail = 0
  let [endBefore, endAfter] = [before.length - tail, after.length - tail]
  let from = 0
  while (from < endBefore && from < endAfter && before[from] === after[from]) from++
  while (endBefore > from && endAfter > from && before[endBefore - 1] === after[endAfter - 1]) {
    endBefore--
    endAfter--
  }
  if (from > 0 && (splits(before, from) || splits(after, from))) from--
  if (splits(before, endBefore) || splits(after, endAfter)) {
    endBefore++
    endAfter++
  }
  const out = new Builder()
  out.push({ keep: from })
  out.push({ insert: after.slice(from, endAfter) })
  out.push({ remove: endBefore - from })
  return out.done()
}

function splits(text: string, at: number): boolean {
  return /^[\ud800-\udbff][\udc00-\udfff]$/.test(text.slice(at - 1, at + 1)) && at > 0
}

function lengthOf(step: Step): number {
  return 'insert' in step ? step.insert.length : 'keep' in step ? step.keep : step.remove
}

function cut(step: Step, from: number, length: number): Step {
  if ('insert' in step) return { insert: step.insert.slice(from, from + length) }
  return 'keep' in step ? { keep: length } : { remove: length }
}

/** Reads a change in pieces. Behind its end everything is kept. */
class Reader {
  readonly #delta: Delta
  #index = 0
  #offset = 0

  constructor(delta: Delta) {
    this.#delta = delta
  }

  get more(): boolean {
    return this.#index < this.#delta.length
  }

  get kind(): 'insert' | 'keep' | 'remove' {
    const step = this.#delta[this.#index]
    if (step === undefined || 'keep' in step) return 'keep'
    return 'insert' in step ? 'insert' : 'remove'
  }

  /** How much of the step is left. */
  get length(): number {
    const step = this.#delta[this.#index]
    return step === undefined ? Number.POSITIVE_INFINITY : lengthOf(step) - this.#offset
  }

  next(length = this.length): Step {
    const step = this.#delta[this.#index]
    if (step === undefined) return { keep: length }
    const piece = cut(step, this.#offset, length)
    this.#offset += length
    if (this.#offset >= lengthOf(step)) {
      this.#index++
      this.#offset = 0
    }
    return piece
  }
}

/** Joins what belongs together, and drops what does nothing. */
class Builder {
  readonly #steps: Step[] = []

  push(step: Step): void {
    if (lengthOf(step) === 0) return
    const last = this.#steps.at(-1)
    if (last === undefined) this.#steps.push(step)
    else if ('keep' in last && 'keep' in step) this.#replace({ keep: last.keep + step.keep })
    else if ('remove' in last && 'remove' in step) this.#replace({ remove: last.remove + step.remove })
    else if ('insert' in last && 'insert' in step) this.#replace({ insert: last.insert + step.insert })
    else if ('remove' in last && 'insert' in step) {
      // One order, so that equal changes look equal: first in, then out.
      this.#steps.pop()
      this.push(step)
      this.#steps.push(last)
    } else this.#steps.push(step)
  }

  done(): Delta {
    const last = this.#steps.at(-1)
    if (last !== undefined && 'keep' in last) this.#steps.pop()
    return this.#steps
  }

  #replace(step: Step): void {
    this.#steps[this.#steps.length - 1] = step
  }
}
