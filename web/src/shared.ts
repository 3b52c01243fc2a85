import { DocumentHistory } from '@rollcall/client/positions'
import { apply, compose, type Delta, difference, type Edit, fromEdits, toEdits, transform } from './delta.ts'

/*
 * A text that several people edit. The server orders the changes and takes only those that were made
 * on its newest version; everybody else moves theirs over what they missed, and asks again:
 *
 *   base     the server's text at `version`
 *   sent     what the server is being asked to add: one change at a time
 *   waiting  what was typed since
 *   view     base, sent, waiting: what is on the screen
 *
 * All bases of a version are alike, so all views are alike once everything typed has been taken.
 */

/** What happened to the text since the version that we hold. */
export interface News {
  readonly epoch: string
  readonly version: number
  readonly changes: readonly { readonly id: string; readonly edits: readonly Edit[] }[]
  /** The whole text, where the changes are not known. */
  readonly text: string | null
}

/** Asks the server; throws a `Refusal` where it says no, anything else where it cannot be reached. */
export interface TextServer {
  read(epoch: string, since: number): Promise<News>
  write(epoch: string, version: number, id: string, edits: readonly Edit[]): Promise<News>
}

export class Refusal extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export type SaveState = 'loading' | 'saved' | 'saving' | 'unreachable' | 'refused' | 'unavailable'

export interface SharedTextEvents {
  /** Others changed the text on our screen. */
  changed(delta: Delta): void
  /** The version or the state is another. */
  told(): void
}

/** The server takes no more edits than this at once. */
const maxEdits = 64
const retryMs = 1_000

export class SharedText {
  history = new DocumentHistory()
  state: SaveState = 'loading'
  view = ''
  readonly #server: TextServer
  readonly #events: SharedTextEvents
  #epoch = ''
  #version = -1
  #base = ''
  #sent: { readonly id: string; readonly delta: Delta } | null = null
  #waiting: Delta = []
  /** There is, or may be, a version newer than ours. */
  #wanted = true
  /** Resolved when the screen may change; null while it may. */
  #held: { readonly promise: Promise<void>; readonly resolve: () => void } | null = null
  #running = false
  #closed = false
  #retry: ReturnType<typeof setTimeout> | null = null

  constructor(server: TextServer, events: SharedTextEvents) {
    this.#server = server
    this.#events = events
  }

  /** Of the server's text, and of every position that we tell. */
  get version(): number {
    return this.#version
  }

  /** What is on the screen and not yet in the server's text. */
  get pending(): Delta {
    return this.#sent === null ? this.#waiting : compose(this.#sent.delta, this.#waiting)
  }

  /** The person at this page changed the text on the screen. */
  edit(delta: Delta): void {
    this.view = apply(this.view, delta)
    this.#waiting = compose(this.#waiting, delta)
    this.#run()
  }

  /** Looks what is new: somebody speaks of a version that we do not have, or it was long ago. */
  look(): void {
    this.#wanted = true
    this.#run()
  }

  /** While held nothing changes on the screen: half a character is being composed there. */
  hold(held: boolean): void {
    if (held) this.#held ??= newHold()
    else {
      this.#held?.resolve()
      this.#held = null
      this.#run()
    }
  }

  close(): void {
    this.#closed = true
    this.#held?.resolve()
    if (this.#retry !== null) clearTimeout(this.#retry)
  }

  #run(): void {
    if (this.#running || this.#closed || this.#retry !== null || this.state === 'unavailable') return
    this.#running = true
    void this.#work()
  }

  async #work(): Promise<void> {
    try {
      await this.#exchange()
    } finally {
      this.#running = false
    }
  }

  /** One question after the other, until there is nothing to ask. */
  async #exchange(): Promise<void> {
    while (!this.#closed) {
      await this.#held?.promise
      if (this.#sent === null && this.#waiting.length > 0 && this.#version >= 0) {
        this.#sent = { id: crypto.randomUUID(), delta: this.#waiting }
        this.#waiting = []
      }
      if (this.#sent === null && !this.#wanted) break
      try {
        const news = await this.#ask()
        await this.#held?.promise
        if (this.#closed) return
        this.#take(news)
        this.#tell(this.pending.length > 0 ? 'saving' : 'saved')
      } catch (error) {
        if (this.#closed) return
        if (this.#failed(error)) return
      }
    }
  }

  #ask(): Promise<News> {
    const sent = this.#sent
    if (sent === null) {
      this.#wanted = false
      return this.#server.read(this.#epoch, this.#version)
    }
    this.#tell('saving')
    let edits = toEdits(sent.delta)
    if (edits.length > maxEdits) edits = toEdits(difference(this.#base, apply(this.#base, sent.delta)))
    return this.#server.write(this.#epoch, this.#version, sent.id, edits)
  }

  /** Returns whether to stop for now. */
  #failed(error: unknown): boolean {
    if (!(error instanceof Refusal)) {
      this.#wanted = true
      this.#retry = setTimeout(() => {
        this.#retry = null
        this.#run()
      }, retryMs)
      this.#tell('unreachable')
      return true
    }
    if (error.status === 404) {
      this.#tell('unavailable')
      return true
    }
    // What cannot be taken, ever, is taken back.
    const undo = difference(this.view, this.#base)
    this.#sent = null
    this.#waiting = []
    this.view = this.#base
    this.#events.changed(undo)
    this.#tell('refused')
    return this.#wanted === false
  }

  #take(news: News): void {
    if (news.epoch !== this.#epoch) this.history = new DocumentHistory()
    this.#epoch = news.epoch
    if (news.text !== null) {
      const edits = toEdits(difference(this.#base, news.text))
      this.#theirs(fromEdits(edits))
      this.#version = news.version
      this.history.advance(news.version, null, { length: this.#base.length })
      return
    }
    for (const { id, edits } of news.changes) {
      const delta = fromEdits(edits)
      if (id === this.#sent?.id) {
        this.#base = apply(this.#base, delta)
        this.#sent = null
      } else this.#theirs(delta)
      this.#version++
      this.history.advance(this.#version, edits, { length: this.#base.length })
    }
  }

  /** A change of somebody else, which came before what of ours the server has not taken. */
  #theirs(delta: Delta): void {
    this.#base = apply(this.#base, delta)
    let theirs = delta
    if (this.#sent !== null) {
      const { id, delta: ours } = this.#sent
      this.#sent = { id, delta: transform(ours, theirs, false) }
      theirs = transform(theirs, ours, true)
    }
    const waiting = this.#waiting
    this.#waiting = transform(waiting, theirs, false)
    theirs = transform(theirs, waiting, true)
    this.view = apply(this.view, theirs)
    if (theirs.length > 0) this.#events.changed(theirs)
  }

  #tell(state: SaveState): void {
    this.state = state
    this.#events.told()
  }
}

function newHold(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}

/** The text of a room on `rollcall dev`. */
export function devServer(room: string): TextServer {
  const address = `demo/text?room=${encodeURIComponent(room)}`
  const ask = async (url: string, request: RequestInit): Promise<News> => {
    const response = await fetch(url, { cache: 'no-store', ...request })
    // A server that is going away is no refusal.
    if (response.status >= 500) throw new Error(`status ${response.status}`)
    if (!response.ok) throw new Refusal(response.status, await response.text())
    return (await response.json()) as News
  }
  return {
    read: (epoch, since) => ask(`${address}&epoch=${epoch}&since=${since}`, {}),
    write: (epoch, version, id, edits) =>
      ask(address, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ epoch, version, id, edits }),
      }),
  }
}
