import type { Signals } from './core/signals.ts'
import type { Readable } from './core/store.ts'

/*
 * Cursors at the rate of the display, from values that come some twenty times a second. Each cursor
 * is shown a little late, by about the time between its values, and goes in a straight line from one
 * to the next: it never overshoots, since it only visits places where it has been. Pure: `now` is an
 * argument; `watchCursors` below brings the clock.
 */

export interface CursorOptions {
  /** True: no movement between values (`prefers-reduced-motion`). */
  readonly reducedMotion?: boolean
  /** A cursor that rests for this long fades. Default 4 s. */
  readonly restAfterMs?: number
  /** How visible a resting cursor stays, from 0 to 1. Default 0.3. */
  readonly restOpacity?: number
}

export interface CursorView {
  readonly x: number
  readonly y: number
  readonly opacity: number
}

interface Sample {
  readonly at: number
  readonly x: number
  readonly y: number
}

interface Track {
  samples: Sample[]
  /** The usual time between values, and so how late the cursor is shown. */
  delayMs: number
  /** The moment that is shown: it only goes forward. */
  playedTo: number
  view: CursorView
}

const minDelayMs = 30
const maxDelayMs = 250
const firstDelayMs = 80
/** A longer gap is a rest, and says nothing of the pace. */
const restGapMs = 400
const fadeMs = 600
const maxSamples = 32

export class CursorMotion {
  readonly #options: Required<CursorOptions>
  readonly #tracks = new Map<string, Track>()
  #moving = false
  #fading = false

  constructor(options: CursorOptions = {}) {
    this.#options = { reducedMotion: false, restAfterMs: 4_000, restOpacity: 0.3, ...options }
  }

  /** A new place. What is not a place is ignored. */
  push(key: string, place: unknown, now: number): void {
    const { x, y } = (typeof place === 'object' && place !== null ? place : {}) as Record<string, unknown>
    if (typeof x !== 'number' || typeof y !== 'number') return
    if (!Number.isFinite(x) || !Number.isFinite(y)) return
    const track = this.#tracks.get(key)
    const last = track?.samples.at(-1)
    if (track === undefined || last === undefined) {
      this.#tracks.set(key, {
        samples: [{ at: now, x, y }],
        delayMs: firstDelayMs,
        playedTo: now,
        view: { x, y, opacity: 1 },
      })
      return
    }
    const gap = Math.max(0, now - last.at)
    if (gap > restGapMs) {
      // It rested there until just now: it starts from there, and does not creep over the whole gap.
      track.samples = [{ ...last, at: now - track.delayMs }]
    } else {
      // Slower at once, so as not to run dry; faster by and by.
      const wanted = Math.min(maxDelayMs, Math.max(minDelayMs, gap * 1.25))
      track.delayMs += (wanted - track.delayMs) * (wanted > track.delayMs ? 0.5 : 0.1)
    }
    track.samples.push({ at: Math.max(now, track.samples.at(-1)?.at ?? now), x, y })
    if (track.samples.length > maxSamples) track.samples.shift()
  }

  remove(key: string): void {
    this.#tracks.delete(key)
  }

  /** Where each cursor is to be seen now. One that did not change is the same object. */
  frame(now: number): ReadonlyMap<string, CursorView> {
    const views = new Map<string, CursorView>()
    this.#moving = false
    this.#fading = false
    for (const [key, track] of this.#tracks) {
      const { x, y } = this.#place(track, now)
      const opacity = this.#opacity(track, now)
      const { view } = track
      if (view.x !== x || view.y !== y || view.opacity !== opacity) track.view = { x, y, opacity }
      views.set(key, track.view)
    }
    return views
  }

  /** When the next frame will look different: 0 = at once, Infinity = only after another value. */
  nextMs(now: number): number {
    if (this.#moving || this.#fading) return 0
    let next = Number.POSITIVE_INFINITY
    for (const { samples } of this.#tracks.values()) {
      const rests = (samples.at(-1)?.at ?? now) + this.#options.restAfterMs
      if (rests > now) next = Math.min(next, rests - now)
    }
    return next
  }

  #place(track: Track, now: number): Sample {
    const last = track.samples.at(-1) as Sample
    if (this.#options.reducedMotion) {
      track.samples = [last]
      return last
    }
    track.playedTo = Math.max(track.playedTo, now - track.delayMs)
    const { samples, playedTo } = track
    // What lies behind the moment that is shown is over, but for the place it starts from.
    while (samples.length > 1 && (samples[1] as Sample).at <= playedTo) samples.shift()
    const [from, to] = samples as [Sample, Sample?]
    if (to === undefined) return from
    this.#moving = true
    const share = Math.min(1, Math.max(0, (playedTo - from.at) / (to.at - from.at)))
    return { at: playedTo, x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share }
  }

  #opacity({ samples }: Track, now: number): number {
    const { reducedMotion, restAfterMs, restOpacity } = this.#options
    const rested = now - (samples.at(-1)?.at ?? now) - restAfterMs
    if (rested < 0) return 1
    if (reducedMotion || rested >= fadeMs) return restOpacity
    this.#fading = true
    return 1 - (1 - restOpacity) * (rested / fadeMs)
  }
}

export interface Cursor extends CursorView {
  readonly connection: string
  readonly user: string
}

/** What the cursors need of the display. */
export interface Display {
  readonly now: () => number
  readonly requestFrame: (fn: () => void) => unknown
  readonly cancelFrame: (frame: unknown) => void
  readonly setTimer: (fn: () => void, ms: number) => unknown
  readonly clearTimer: (timer: unknown) => void
  readonly reducedMotion: () => boolean
}

/** The display of a browser page. */
export function browserDisplay(): Display {
  return {
    now: () => performance.now(),
    requestFrame: (fn) => requestAnimationFrame(fn),
    cancelFrame: (frame) => cancelAnimationFrame(frame as number),
    setTimer: (fn, ms) => setTimeout(fn, ms),
    clearTimer: (timer) => clearTimeout(timer as ReturnType<typeof setTimeout>),
    reducedMotion: () =>
      typeof matchMedia === 'function' && matchMedia('(prefers-reduced-motion: reduce)').matches,
  }
}

/**
 * Calls `fn` with the cursors of others (signals whose data is `{x, y}`) whenever they look
 * different: while they move at each frame of the display, at rest not at all. Returns the way to stop.
 */
export function watchCursors(
  signals: Readable<Signals>,
  fn: (cursors: readonly Cursor[]) => void,
  options: CursorOptions = {},
  display: Display = browserDisplay(),
): () => void {
  const motion = new CursorMotion({ reducedMotion: display.reducedMotion(), ...options })
  let known: Signals = new Map()
  let shown: ReadonlyMap<string, CursorView> = new Map()
  let cursors = new Map<string, Cursor>()
  let frame: unknown = null
  let timer: unknown = null

  const clear = () => {
    if (frame !== null) display.cancelFrame(frame)
    if (timer !== null) display.clearTimer(timer)
    frame = null
    timer = null
  }
  const draw = () => {
    clear()
    const now = display.now()
    const views = motion.frame(now)
    const same = views.size === shown.size && [...views].every(([key, view]) => shown.get(key) === view)
    if (!same) {
      const next = new Map<string, Cursor>()
      for (const [connection, view] of views) {
        const user = known.get(connection)?.user ?? ''
        const before = shown.get(connection) === view ? cursors.get(connection) : undefined
        next.set(connection, before ?? { connection, user, ...view })
      }
      shown = views
      cursors = next
      fn([...next.values()])
    }
    const wait = motion.nextMs(now)
    if (wait === 0) frame = display.requestFrame(draw)
    else if (wait < Number.POSITIVE_INFINITY) timer = display.setTimer(draw, wait)
  }
  const stop = signals.subscribe((next) => {
    const now = display.now()
    for (const [connection, signal] of next) {
      if (known.get(connection) !== signal) motion.push(connection, signal.data, now)
    }
    for (const connection of known.keys()) if (!next.has(connection)) motion.remove(connection)
    known = next
    // The first frame waits for the display, and takes in all that came before it.
    if (frame === null) {
      clear()
      frame = display.requestFrame(draw)
    }
  })
  return () => {
    stop()
    clear()
  }
}
