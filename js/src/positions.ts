import type { Json } from './core/member.ts'
import type { Signal, Signals } from './core/signals.ts'
import type { Readable } from './core/store.ts'

/*
 * Where a position of somebody else is in our own text. A signal names the version of the document
 * that it speaks of (`docVersion`); a `DocumentHistory` is told our versions and the edits between
 * them:
 *
 *   older than ours   moved through the edits since; where they are not known, `clamped` or `hidden`
 *   ours              as it is
 *   newer             `pending`, until our document gets there
 *
 * A position is an offset, alone or as `offset` or `index`; or `line` with `column`, `col`, `ch` or
 * `character`; or an object of these under `anchor`, `head`, `start`, `end`, `from`, `to`,
 * `position`, `cursor`. Everything else (relative positions of Yjs, colours) is left alone. Lines and
 * columns count from 0, in UTF-16 units as JavaScript does. Pure, and nothing that comes from others
 * makes it throw.
 */

export interface Point {
  readonly line: number
  readonly column: number
}

/**
 * One edit, in the text as the edits before it left it. An insert has no end, a delete no text. An
 * edit that names only offsets cannot move a position by line and column, nor the other way round.
 */
export interface TextEdit {
  readonly from?: number
  readonly to?: number
  readonly start?: Point
  readonly end?: Point
  readonly text?: string
}

/** How large the document is, as far as that is known: positions beyond are clamped. */
export interface DocumentSize {
  readonly length?: number
  readonly lines?: number
  readonly lineLength?: (line: number) => number
}

export type Placement = 'placed' | 'clamped' | 'pending' | 'hidden'

export interface Placed {
  readonly state: Placement
  /** As it came, with its positions moved. Not to be shown while pending or hidden. */
  readonly data: Json
}

export interface DocumentOptions {
  readonly version?: number
  /** How many versions are remembered. Default 1,000. */
  readonly keep?: number
  /** Where a position at an insert goes: `after` follows who types there. Default. */
  readonly bias?: 'after' | 'before'
  /** Moves `data` itself, in place of the edits; null hides it. */
  readonly map?: (data: Json, from: number, to: number) => Json
}

interface Change {
  readonly from: number
  readonly to: number
  /** Null: something changed, nobody knows what. */
  readonly edits: readonly TextEdit[] | null
}

/** The versions of the text that we hold, and what changed between them. Watching it tells the version. */
export class DocumentHistory implements Readable<number> {
  readonly #options: DocumentOptions
  readonly #subscribers = new Set<{ readonly fn: (version: number) => void }>()
  #version: number
  #size: DocumentSize = {}
  #changes: Change[] = []
  /** Raised with every change, so that what was placed before can be kept. */
  revision = 0

  constructor(options: DocumentOptions = {}) {
    this.#options = options
    this.#version = options.version ?? 0
  }

  get(): number {
    return this.#version
  }

  subscribe(fn: (version: number) => void): () => void {
    const entry = { fn }
    this.#subscribers.add(entry)
    fn(this.#version)
    return () => {
      this.#subscribers.delete(entry)
    }
  }

  /**
   * Our document is at `version` now. `edits` lead there from the version before, in their order; left
   * out, what changed is not known. A version that is not newer than ours starts anew.
   */
  advance(version: number, edits?: readonly TextEdit[] | null, size?: DocumentSize): void {
    if (version > this.#version) {
      this.#changes.push({ from: this.#version, to: version, edits: edits ?? null })
      const keep = this.#options.keep ?? 1_000
      if (this.#changes.length > keep) this.#changes.splice(0, this.#changes.length - keep)
    } else if (version !== this.#version) this.#changes = []
    this.#version = version
    // Of a text that changed the old size says nothing.
    this.#size = size ?? (edits?.length === 0 ? this.#size : {})
    this.revision++
    for (const { fn } of [...this.#subscribers]) fn(version)
  }

  /** Where `data`, said at `docVersion`, is now. Without a version it is taken to speak of ours. */
  place(data: unknown, docVersion: unknown = null): Placed {
    const version = docVersion ?? this.#version
    if (data === undefined || data === null) return { state: 'hidden', data: null }
    if (typeof version === 'number' && version > this.#version)
      return { state: 'pending', data: data as Json }
    if (this.#options.map) return this.#mapped(data as Json, version)
    const mover = new Mover(this.#since(version), this.#size, this.#options.bias ?? 'after')
    const moved = mover.value(data as Json)
    return { state: mover.state, data: moved }
  }

  #mapped(data: Json, version: unknown): Placed {
    try {
      const moved = this.#options.map?.(data, Number(version), this.#version) ?? null
      return { state: moved === null ? 'hidden' : 'placed', data: moved }
    } catch {
      return { state: 'hidden', data: null }
    }
  }

  /** The edits since a version; null if they are not known. */
  #since(version: unknown): readonly TextEdit[] | null {
    if (version === this.#version) return []
    const first = this.#changes.findIndex(({ from }) => from === version)
    if (first === -1) return null
    const edits: TextEdit[] = []
    for (const change of this.#changes.slice(first)) {
      if (change.edits === null) return null
      edits.push(...change.edits)
    }
    return edits
  }
}

export interface PlacedSignal extends Signal {
  readonly state: Placement
}

/** Signals of one kind, with their positions moved to where they are in our document now. */
export function placeSignals(
  signals: Readable<Signals>,
  history: DocumentHistory,
): Readable<ReadonlyMap<string, PlacedSignal>> {
  let known: { readonly from: Signals; readonly revision: number } | null = null
  let placed: ReadonlyMap<string, PlacedSignal> = new Map()
  const get = () => {
    const from = signals.get()
    const { revision } = history
    if (known?.from === from && known.revision === revision) return placed
    known = { from, revision }
    const next = new Map<string, PlacedSignal>()
    for (const [connection, signal] of from) {
      const { state, data } = history.place(signal.data, signal.docVersion)
      next.set(connection, { ...signal, state, data })
    }
    placed = next
    return placed
  }
  const subscribe = (fn: (value: ReadonlyMap<string, PlacedSignal>) => void) => {
    let last: ReadonlyMap<string, PlacedSignal> | null = null
    const tell = () => {
      const value = get()
      if (value === last) return
      last = value
      fn(value)
    }
    const stops = [signals.subscribe(tell), history.subscribe(tell)]
    return () => {
      for (const stop of stops) stop()
    }
  }
  return { get, subscribe }
}

const columnKeys = ['column', 'col', 'ch', 'character'] as const
const offsetKeys = ['offset', 'index'] as const
const nestedKeys = ['anchor', 'head', 'start', 'end', 'from', 'to', 'position', 'cursor'] as const
const maxDepth = 4

type Fields = { readonly [key: string]: Json }

/** Moves all positions in one value, and keeps the worst that happened to any of them. */
class Mover {
  state: Placement = 'placed'
  readonly #edits: readonly TextEdit[] | null
  readonly #size: DocumentSize
  readonly #bias: 'after' | 'before'

  constructor(edits: readonly TextEdit[] | null, size: DocumentSize, bias: 'after' | 'before') {
    this.#edits = edits
    this.#size = size
    this.#bias = bias
  }

  value(data: Json, depth = 0): Json {
    if (typeof data === 'number') return this.#offset(data)
    if (typeof data !== 'object' || data === null || Array.isArray(data) || depth > maxDepth) return data
    const fields = data as Fields
    const column = columnKeys.find((key) => Object.hasOwn(fields, key))
    if (Object.hasOwn(fields, 'line') || column !== undefined) {
      const { line, column: at } = this.#point(fields.line, column === undefined ? 0 : fields[column])
      return { ...fields, line, [column ?? 'column']: at }
    }
    const offset = offsetKeys.find((key) => Object.hasOwn(fields, key))
    if (offset !== undefined) return { ...fields, [offset]: this.#offset(fields[offset]) }
    const nested = nestedKeys.filter((key) => Object.hasOwn(fields, key))
    if (nested.length === 0) return data
    return {
      ...fields,
      ...Object.fromEntries(nested.map((key) => [key, this.value(fields[key] ?? null, depth + 1)])),
    }
  }

  #offset(value: unknown): number {
    const { length } = this.#size
    let offset = this.#whole(value)
    if (!this.#follow(length)) return offset
    for (const { from, to = from, text = '' } of this.#edits ?? []) {
      if (from === undefined || to === undefined) {
        this.#worse('hidden')
        return offset
      }
      const inserts = from === to
      if (offset < from || (offset === from && !(inserts && this.#bias === 'after'))) continue
      if (offset >= to) offset += text.length - (to - from)
      else {
        offset = from
        this.#worse('clamped')
      }
    }
    return this.#atMost(offset, length)
  }

  #point(lineValue: unknown, columnValue: unknown): Point {
    const { lines, lineLength } = this.#size
    let point: Point = { line: this.#whole(lineValue), column: this.#whole(columnValue) }
    if (!this.#follow(lines)) return point
    for (const edit of this.#edits ?? []) {
      const moved = movePoint(point, edit, this.#bias)
      if (moved === 'inside') this.#worse('clamped')
      point = moved === 'inside' ? (edit.start ?? point) : (moved ?? point)
      if (moved === null) this.#worse('hidden')
    }
    if (lines !== undefined && point.line >= lines) {
      const last = Math.max(0, lines - 1)
      this.#worse('clamped')
      return { line: last, column: lineLength?.(last) ?? 0 }
    }
    return { line: point.line, column: this.#atMost(point.column, lineLength?.(point.line)) }
  }

  /** Whether a position can be followed at all: through unknown edits only as far as the size holds it. */
  #follow(size: number | undefined): boolean {
    if (this.#edits !== null) return true
    this.#worse(size === undefined ? 'hidden' : 'clamped')
    return size !== undefined
  }

  #whole(value: unknown): number {
    if (typeof value !== 'number' || !Number.isFinite(value)) {
      this.#worse('hidden')
      return 0
    }
    if (value < 0) this.#worse('clamped')
    return Math.max(0, Math.floor(value))
  }

  #atMost(value: number, limit: number | undefined): number {
    if (limit === undefined || value <= limit) return value
    this.#worse('clamped')
    return limit
  }

  #worse(state: 'clamped' | 'hidden'): void {
    if (this.state !== 'hidden') this.state = state
  }
}

/** `inside` = what the point was in is gone; null = the edit does not say where it is by lines. */
function movePoint(point: Point, edit: TextEdit, bias: 'after' | 'before'): Point | 'inside' | null {
  const { start, text = '' } = edit
  if (start === undefined) return null
  const end = edit.end ?? start
  const inserts = comparePoints(start, end) === 0
  const side = comparePoints(point, start)
  if (side < 0 || (side === 0 && !(inserts && bias === 'after'))) return point
  if (comparePoints(point, end) < 0) return 'inside'
  const added = text.split(/\r\n|\r|\n/)
  const last = added.at(-1)?.length ?? 0
  const line = point.line - end.line + start.line + added.length - 1
  if (point.line !== end.line) return { line, column: point.column }
  const base = added.length === 1 ? start.column + last : last
  return { line, column: base + point.column - end.column }
}

function comparePoints(a: Point, b: Point): number {
  return a.line - b.line || a.column - b.column
}
