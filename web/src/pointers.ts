import { nameOf, type Room } from '@rollcall/client'
import { type Cursor, watchCursors } from '@rollcall/client/cursors'
import { paint } from './people.ts'

/**
 * The pointers of others over the page, each with a name. Across, a place is a share of the width,
 * so that it means the same in windows of any size; down, it is a distance from the top.
 */
export class Pointers {
  readonly #field: HTMLElement
  readonly #layer: HTMLElement
  readonly #marks = new Map<string, HTMLElement>()

  constructor(field: HTMLElement, layer: HTMLElement) {
    this.#field = field
    this.#layer = layer
  }

  /** Shows the pointers of a room, and ours to the others, until the returned function is called. */
  show(room: Room): () => void {
    const move = ({ pointerType, clientX, clientY }: PointerEvent) => {
      // A finger scrolls; only a mouse or a pen points.
      if (pointerType === 'touch') return
      const { left, top, width } = this.#field.getBoundingClientRect()
      const x = Math.round(((clientX - left) / width) * 10_000) / 10_000
      room.signal('cursor', { x, y: Math.round(clientY - top) })
    }
    const gone = () => room.signal('cursor', null)
    const page = document.documentElement
    page.addEventListener('pointermove', move)
    page.addEventListener('pointerleave', gone)
    const stop = watchCursors(room.signals('cursor'), (cursors) => this.#render(room, cursors))
    return () => {
      page.removeEventListener('pointermove', move)
      page.removeEventListener('pointerleave', gone)
      stop()
      this.#render(room, [])
    }
  }

  #render(room: Room, cursors: readonly Cursor[]): void {
    const here = new Set(cursors.map(({ connection }) => connection))
    for (const [connection, mark] of this.#marks) {
      if (here.has(connection)) continue
      this.#marks.delete(connection)
      mark.remove()
    }
    const width = this.#field.clientWidth
    for (const { connection, user, x, y, opacity } of cursors) {
      const mark = this.#marks.get(connection) ?? this.#add(connection)
      const member = room.members.get().find((member) => member.user === user)
      paint(mark, user, member?.info ?? {})
      const name = member === undefined ? user : nameOf(member)
      const label = mark.lastElementChild as HTMLElement
      if (label.textContent !== name) label.textContent = name
      // What others say is not to be trusted: a pointer never leaves the field.
      const left = Math.min(1, Math.max(0, x)) * width
      const top = Math.min(this.#field.clientHeight, Math.max(0, y))
      mark.toggleAttribute('data-left', left + mark.offsetWidth > width)
      mark.style.translate = `${left}px ${top}px`
      mark.style.opacity = String(opacity)
    }
  }

  #add(connection: string): HTMLElement {
    const mark = document.createElement('div')
    mark.className = 'cursor'
    const label = document.createElement('bdi')
    mark.append(document.createElement('i'), label)
    this.#layer.append(mark)
    this.#marks.set(connection, mark)
    return mark
  }
}
