import { nameOf, type Room, type Signal } from '@rollcall/client'
import { type Delta, difference, movePlace } from './delta.ts'
import { paint } from './people.ts'
import { devServer, type SaveState, SharedText } from './shared.ts'

interface Range {
  readonly anchor: number
  readonly head: number
}

interface Mark {
  readonly caret: HTMLElement
  readonly label: HTMLElement
  readonly bands: HTMLElement
  /** What was last drawn, so that what stands still is left alone. */
  drawn: string
  signal: Signal | null
}

/** After this long without a move a name is taken away, and the caret dims. */
const restAfterMs = 4_000
/** Where no signal tells of news: in a crowd, signals of strangers do not come. */
const lookEveryMs = 2_500

const stateTexts: Readonly<Record<SaveState, string>> = {
  loading: 'Loading',
  saved: 'Everything typed is with everybody',
  saving: 'Sending',
  unreachable: 'The server is away. What you type is kept and sent later',
  refused: 'The server did not take that, so it was taken back. A text has at most 20,000 characters',
  unavailable: '',
}

/**
 * The text that all in the room edit, with the carets, the selections and the typing of the others.
 * A position means nothing without the version of the text that it was made on, so each comes with
 * one: older ones are moved through the changes since, newer ones wait until we have that version.
 */
export class Editor {
  readonly #section: HTMLElement
  readonly #area: HTMLTextAreaElement
  readonly #mirror: HTMLElement
  readonly #layer: HTMLElement
  readonly #typing: HTMLElement
  readonly #state: HTMLElement
  readonly #marks = new Map<string, Mark>()
  #room: Room | null = null
  #text: SharedText | null = null
  #said = ''
  #frame: number | null = null
  #rest: ReturnType<typeof setTimeout> | null = null

  constructor(section: HTMLElement) {
    const find = <T extends HTMLElement>(name: string) => section.querySelector(`.${name}`) as T
    this.#section = section
    this.#area = find<HTMLTextAreaElement>('area')
    this.#mirror = find('mirror')
    this.#layer = find('carets')
    this.#typing = find('typing')
    this.#state = find('saved')
    const area = this.#area
    area.addEventListener('input', () => this.#input())
    area.addEventListener('compositionstart', () => this.#text?.hold(true))
    area.addEventListener('compositionend', () => this.#text?.hold(false))
    area.addEventListener('blur', () => this.#say())
    area.addEventListener('focus', () => this.#say())
    document.addEventListener('selectionchange', () => this.#say())
    new ResizeObserver(() => this.#draw()).observe(area)
  }

  /** Shows the text of a room until the returned function is called. */
  show(room: Room): () => void {
    const text = new SharedText(devServer(room.id), {
      changed: (delta) => this.#changed(delta),
      told: () => this.#told(),
    })
    this.#room = room
    this.#text = text
    this.#said = ''
    this.#area.readOnly = true
    text.look()
    const timer = setInterval(() => {
      if (!document.hidden) text.look()
    }, lookEveryMs)
    const stops = [
      room.signals('selection').subscribe((signals) => {
        for (const { docVersion } of signals.values()) {
          if (typeof docVersion === 'number' && docVersion > text.version) text.look()
        }
        this.#draw()
      }),
      room.signals('typing').subscribe((signals) => this.#renderTyping(room, [...signals.values()])),
      room.members.subscribe(() => this.#draw()),
    ]
    return () => {
      for (const stop of stops) stop()
      clearInterval(timer)
      text.close()
      this.#room = null
      this.#text = null
      this.#render()
      this.#typing.textContent = ''
    }
  }

  /** The person typed. */
  #input(): void {
    const [text, area] = [this.#text, this.#area]
    if (text === null) return
    const delta = difference(text.view, area.value, area.selectionEnd)
    if (delta.length === 0) return
    text.edit(delta)
    this.#room?.typing()
    this.#fit()
    this.#draw()
  }

  /** Others typed: our own caret stays with the letters it stands at. */
  #changed(delta: Delta): void {
    const [text, area] = [this.#text, this.#area]
    if (text === null) return
    const { selectionStart, selectionEnd, selectionDirection, scrollTop } = area
    area.value = text.view
    area.setSelectionRange(
      movePlace(selectionStart, delta),
      movePlace(selectionEnd, delta),
      selectionDirection ?? 'none',
    )
    area.scrollTop = scrollTop
    this.#fit()
    this.#draw()
  }

  #told(): void {
    const text = this.#text
    if (text === null) return
    this.#section.hidden = text.state === 'unavailable'
    this.#area.readOnly = text.version < 0
    this.#state.dataset.state = text.state
    if (this.#state.textContent !== stateTexts[text.state]) this.#state.textContent = stateTexts[text.state]
    this.#say()
    this.#draw()
  }

  /** Tells where our caret is, in words of a version that others can have: only once all is sent. */
  #say(): void {
    const [text, room, area] = [this.#text, this.#room, this.#area]
    if (text === null || room === null || text.version < 0) return
    if (document.activeElement !== area) {
      if (this.#said !== '') room.signal('selection', null)
      this.#said = ''
      return
    }
    if (text.pending.length > 0) return
    const backwards = area.selectionDirection === 'backward'
    const [anchor, head] = backwards
      ? [area.selectionEnd, area.selectionStart]
      : [area.selectionStart, area.selectionEnd]
    const said = `${text.version} ${anchor} ${head}`
    if (said === this.#said) return
    this.#said = said
    room.signal('selection', { anchor, head }, { docVersion: text.version })
  }

  #renderTyping(room: Room, signals: readonly Signal[]): void {
    const own = room.self.get()?.user
    const users = [...new Set(signals.map(({ user }) => user))].filter((user) => user !== own)
    const names = users.slice(0, 2).map((user) => `\u2068${this.#name(room, user)}\u2069`)
    const text =
      users.length === 0
        ? ''
        : users.length > 2
          ? `${names[0]} and ${users.length - 1} others are typing`
          : `${names.join(' and ')} ${users.length === 1 ? 'is' : 'are'} typing`
    if (this.#typing.textContent !== text) this.#typing.textContent = text
    this.#typing.toggleAttribute('data-on', text !== '')
  }

  #name(room: Room, user: string): string {
    const member = room.members.get().find((member) => member.user === user)
    return member === undefined ? user : nameOf(member)
  }

  /** The text is as high as what stands in it: it never scrolls by itself. */
  #fit(): void {
    const { style } = this.#area
    style.height = 'auto'
    style.height = `${this.#area.scrollHeight}px`
  }

  #draw(): void {
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = null
      this.#render()
    })
  }

  #render(): void {
    const [text, room] = [this.#text, this.#room]
    const shown = new Map<string, { signal: Signal; range: Range | null }>()
    if (text !== null && room !== null && text.version >= 0) {
      if (this.#mirror.textContent !== text.view) {
        // The line after the last break is there only if something stands in it.
        this.#mirror.textContent = text.view
        for (const mark of this.#marks.values()) mark.drawn = ''
      }
      if (this.#area.value === text.view && this.#area.clientHeight < this.#area.scrollHeight) this.#fit()
      for (const [connection, signal] of room.signals('selection').get()) {
        const { state, data } = text.history.place(signal.data, signal.docVersion)
        // Of a version that we do not have yet: it stays where it was until we do.
        if (state === 'pending') shown.set(connection, { signal, range: null })
        else if (state !== 'hidden') {
          const range = readRange(data, text.pending)
          if (range !== null) shown.set(connection, { signal, range })
        }
      }
    }
    for (const [connection, mark] of this.#marks) {
      if (shown.has(connection)) continue
      mark.caret.remove()
      mark.bands.remove()
      this.#marks.delete(connection)
    }
    for (const [connection, { signal, range }] of shown) {
      if (room !== null && range !== null) this.#mark(room, connection, signal, range)
    }
    this.#dim()
  }

  #mark(room: Room, connection: string, signal: Signal, { anchor, head }: Range): void {
    const isNew = !this.#marks.has(connection)
    const mark = this.#marks.get(connection) ?? this.#add(connection)
    const name = this.#name(room, signal.user)
    mark.signal = signal
    const { width } = this.#layer.getBoundingClientRect()
    const drawn = `${anchor} ${head} ${name} ${width}`
    if (mark.drawn === drawn) return
    mark.drawn = drawn
    const info = room.members.get().find((member) => member.user === signal.user)?.info ?? {}
    paint(mark.caret, signal.user, info)
    paint(mark.bands, signal.user, info)
    if (mark.label.textContent !== name) mark.label.textContent = name
    const { x, y, height } = this.#place(head)
    mark.caret.style.translate = `${x}px ${y}px`
    mark.caret.style.height = `${height}px`
    // One that has just come stands there: it does not fly in from the corner.
    if (isNew) for (const animation of mark.caret.getAnimations()) animation.finish()
    // The name stays inside: to the left where there is no room to the right, below in the first line.
    mark.caret.toggleAttribute('data-left', x + mark.label.offsetWidth > width)
    mark.caret.toggleAttribute('data-below', y < mark.label.offsetHeight)
    mark.bands.replaceChildren(
      ...this.#rects(Math.min(anchor, head), Math.max(anchor, head)).map((rect) => {
        const band = document.createElement('i')
        Object.assign(band.style, {
          translate: `${rect.x}px ${rect.y}px`,
          width: `${rect.width}px`,
          height: `${rect.height}px`,
        })
        return band
      }),
    )
  }

  /** Names go when nothing moves; one timer for the next of them. */
  #dim(): void {
    if (this.#rest !== null) clearTimeout(this.#rest)
    this.#rest = null
    const now = performance.now()
    let next = Number.POSITIVE_INFINITY
    for (const { caret, signal } of this.#marks.values()) {
      const left = (signal?.at ?? 0) + restAfterMs - now
      caret.toggleAttribute('data-rest', left <= 0)
      if (left > 0) next = Math.min(next, left)
    }
    if (next < Number.POSITIVE_INFINITY) this.#rest = setTimeout(() => this.#dim(), next)
  }

  #add(connection: string): Mark {
    const caret = document.createElement('div')
    caret.className = 'caret'
    const label = document.createElement('bdi')
    caret.append(label)
    const bands = document.createElement('div')
    bands.className = 'bands'
    this.#layer.append(bands, caret)
    const mark = { caret, label, bands, drawn: '', signal: null }
    this.#marks.set(connection, mark)
    return mark
  }

  #place(at: number): { x: number; y: number; height: number } {
    const rect = this.#clientRect(at)
    const origin = this.#layer.getBoundingClientRect()
    return { x: rect.left - origin.left, y: rect.top - origin.top, height: rect.height }
  }

  #clientRect(at: number): { left: number; top: number; height: number } {
    const range = this.#range(at, at)
    // After a line break a place has a rectangle on the line before, or none: a letter there tells more.
    const text = this.#mirror.textContent ?? ''
    if (text[at - 1] === '\n' || text === '') {
      const probe = document.createElement('span')
      probe.textContent = '\u200b'
      range.insertNode(probe)
      const { left, top, height } = probe.getBoundingClientRect()
      probe.remove()
      this.#mirror.normalize()
      return { left, top, height }
    }
    const { left, top, height } = [...range.getClientRects()].at(-1) ?? range.getBoundingClientRect()
    return { left, top, height }
  }

  #rects(from: number, to: number): DOMRect[] {
    if (from === to) return []
    const { left, top } = this.#layer.getBoundingClientRect()
    return [...this.#range(from, to).getClientRects()].map(
      (rect) => new DOMRect(rect.left - left, rect.top - top, Math.max(4, rect.width), rect.height),
    )
  }

  #range(from: number, to: number): globalThis.Range {
    const range = document.createRange()
    const node = this.#mirror.firstChild
    const length = node?.textContent?.length ?? 0
    range.setStart(node ?? this.#mirror, node === null ? 0 : Math.min(from, length))
    range.setEnd(node ?? this.#mirror, node === null ? 0 : Math.min(to, length))
    return range
  }
}

/** What comes from others is checked; then moved over what we typed and the server does not have yet. */
function readRange(data: unknown, pending: Delta): Range | null {
  const { anchor, head } = (typeof data === 'object' && data !== null ? data : {}) as Record<string, unknown>
  if (typeof anchor !== 'number' || typeof head !== 'number') return null
  return { anchor: movePlace(anchor, pending), head: movePlace(head, pending) }
}
