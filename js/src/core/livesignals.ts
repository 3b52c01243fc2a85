import { isRaw, positive, type Raw, toList, type UnreadFrame } from './frame.ts'

/** The signals that live in one room, as they were said, for somebody who comes later. */
export class LiveSignals {
  readonly #live = new Map<string, { readonly said: Raw; readonly endsAt: number }>()

  /** Takes what a `signals` frame says; `now` and `endsAt` in ms of one clock. */
  take(fields: Raw, now: number): void {
    if (fields.full === true) this.#live.clear()
    for (const said of toList(fields.signals)) {
      if (!isRaw(said)) continue
      const key = JSON.stringify([said.connection, said.kind])
      if (said.data === null) this.#live.delete(key)
      else this.#live.set(key, { said, endsAt: now + (positive(said.ttlMs) ?? Number.POSITIVE_INFINITY) })
    }
    for (const [key, { endsAt }] of this.#live) if (endsAt <= now) this.#live.delete(key)
  }

  /** All of them, each with the time that it has left. */
  frame(room: string, now: number): UnreadFrame {
    const signals: Raw[] = []
    for (const { said, endsAt } of this.#live.values()) {
      if (endsAt > now)
        signals.push(endsAt < Number.POSITIVE_INFINITY ? { ...said, ttlMs: endsAt - now } : said)
    }
    return { type: 'signals', room, fields: { room, signals, full: true } }
  }
}
