import { type Frame, isRaw, readFrame } from './frame.ts'

export interface ServerEvent {
  readonly event: string
  readonly data: string
}

/**
 * Parses `text/event-stream` as the standard says: LF, CR or CRLF; comments; several data lines; an
 * `id` alone changes the last event id without an event. Text comes in pieces of any size.
 */
export class EventParser {
  readonly #onEvent: (event: ServerEvent) => void
  lastEventId: string | null = null
  #rest = ''
  #started = false
  #event = ''
  #data: string[] = []

  constructor(onEvent: (event: ServerEvent) => void) {
    this.#onEvent = onEvent
  }

  push(text: string): void {
    let input = this.#rest + text
    if (!this.#started && input !== '') {
      this.#started = true
      if (input.startsWith('\ufeff')) input = input.slice(1)
    }
    // A CR at the very end may be half of a CRLF: it waits for what comes next.
    const lines = input.split(/\r\n|\n|\r(?!$)/)
    this.#rest = lines.pop() ?? ''
    for (const line of lines) this.#line(line)
  }

  #line(line: string): void {
    if (line === '') {
      this.#dispatch()
      return
    }
    const colon = line.indexOf(':')
    if (colon === 0) return
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    switch (field) {
      case 'event':
        this.#event = value
        break
      case 'data':
        this.#data.push(value)
        break
      case 'id':
        if (!value.includes('\0')) this.lastEventId = value
        break
      // `retry` is for clients without a back-off of their own.
    }
  }

  #dispatch(): void {
    const event = { event: this.#event || 'message', data: this.#data.join('\n') }
    const empty = this.#data.length === 0
    this.#event = ''
    this.#data = []
    if (!empty) this.#onEvent(event)
  }
}

/**
 * The frame that an event is, or null. Its type is the name of the event, and `room` stands in where a
 * stream of a single room leaves it out.
 */
export function decodeEvent(event: string, data: string, room: string | null): Frame | null {
  try {
    const value: unknown = JSON.parse(data)
    return isRaw(value) ? readFrame({ room, ...value, type: event }) : null
  } catch {
    return null
  }
}
