import { type Contacts, type Member, nameOf, type Room, type RosterPage } from '@rollcall/client'
import { initials } from './avatar.ts'
import { paint } from './people.ts'

interface Row {
  readonly item: HTMLLIElement
  readonly face: HTMLElement
  readonly name: HTMLElement
  readonly detail: HTMLElement
  readonly star: HTMLButtonElement
  shown: Member | null
}

const crowd = 1_000
/** What the ids of those begin with whom the server brings in. */
const extra = 'extra-'
const step = 50
const number = new Intl.NumberFormat()
/** The next members are asked for when so much is left to scroll. */
const aheadPx = 240

/**
 * A room that is too large to name everyone: a number, a sample, and this list, which opens pages as
 * it is scrolled and hears of nobody that it does not show. Who is starred is told wherever they are.
 */
export class House {
  readonly #section: HTMLElement
  readonly #list: HTMLUListElement
  readonly #mine: HTMLUListElement
  readonly #state: HTMLElement
  readonly #rows = new Map<string, Row>()
  /** The one star that Tab reaches: arrows go to the others, as a thousand stops would be a wall. */
  #reached: HTMLButtonElement | null = null
  /** By user: the name that was last seen. */
  readonly #stars = new Map<string, string>()
  #room: Room | null = null
  #page: RosterPage | null = null
  #contacts: Contacts | null = null
  #stopContacts: (() => void) | null = null
  #busy = false

  constructor(section: HTMLElement) {
    this.#section = section
    this.#list = section.querySelector('.members') as HTMLUListElement
    this.#mine = section.querySelector('.mine') as HTMLUListElement
    this.#state = section.querySelector('.pages') as HTMLElement
    this.#list.addEventListener('scroll', () => this.#more(), { passive: true })
    this.#list.addEventListener('keydown', (event) => this.#walk(event))
    this.#list.addEventListener('focusin', ({ target }) => this.#reach(target as HTMLButtonElement))
    section.addEventListener('click', ({ target }) => {
      const button = (target as HTMLElement).closest('button')
      if (button?.dataset.crowd !== undefined) void this.#bring(Number(button.dataset.crowd))
      if (button?.dataset.star !== undefined) this.#star(button.dataset.star, button.title)
    })
  }

  /** Shows the large room until the returned function is called. */
  show(room: Room): () => void {
    this.#room = room
    let stopPage = () => {}
    const close = () => {
      stopPage()
      this.#page?.close()
      this.#page = null
      this.#state.textContent = ''
    }
    const stopMode = room.mode.subscribe((mode) => {
      const large = mode === 'counts'
      this.#section.toggleAttribute('data-large', large)
      this.#buttons()
      if (large === (this.#page !== null)) return
      close()
      this.#render([])
      if (!large) return
      const page = room.page({ limit: step })
      this.#page = page
      stopPage = page.subscribe(({ members, count, nextCursor, loading }) => {
        this.#render(members)
        this.#state.textContent = loading
          ? 'Loading'
          : `${number.format(members.length)} of ${number.format(count)} are open${nextCursor === null ? '' : '; scroll for more'}`
      })
    })
    const stopMembers = room.members.subscribe(() => this.#buttons())
    this.#listen()
    return () => {
      stopMode()
      stopMembers()
      close()
      this.#stopContacts?.()
      this.#contacts?.close()
      this.#contacts = null
      this.#room = null
      this.#render([])
      this.#buttons()
    }
  }

  /** Each can be pressed only where it does something. */
  #buttons(): void {
    const mode = this.#room?.mode.get() ?? null
    const full =
      mode === 'counts' || (this.#room?.members.get() ?? []).some(({ user }) => user.startsWith(extra))
    for (const button of this.#section.querySelectorAll<HTMLButtonElement>('[data-crowd]')) {
      const brings = button.dataset.crowd !== '0'
      button.disabled = this.#busy || mode === null || brings === full
    }
  }

  async #bring(count: number): Promise<void> {
    const room = this.#room
    if (room === null || this.#busy) return
    this.#busy = true
    this.#buttons()
    this.#state.textContent = count > 0 ? 'They are coming' : 'They are going'
    try {
      const answer = await fetch(`demo/crowd?room=${encodeURIComponent(room.id)}`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ count: count > 0 ? crowd : 0 }),
      })
      if (answer.ok) this.#state.textContent = ''
      else this.#state.textContent = 'The server brings no crowd: only rollcall dev does'
    } catch {
      this.#state.textContent = 'The server is away'
    } finally {
      this.#busy = false
      this.#buttons()
    }
  }

  #more(): void {
    const { scrollTop, clientHeight, scrollHeight } = this.#list
    const state = this.#page?.get()
    if (state === undefined || state.loading || state.nextCursor === null) return
    if (scrollTop + clientHeight > scrollHeight - aheadPx) this.#page?.more()
  }

  #walk(event: KeyboardEvent): void {
    const rows = [...this.#list.children]
    const here = rows.findIndex((row) => row.contains(document.activeElement))
    const places: Readonly<Record<string, number>> = {
      ArrowDown: here + 1,
      ArrowUp: here - 1,
      Home: 0,
      End: rows.length - 1,
    }
    const place = places[event.key]
    if (place === undefined) return
    event.preventDefault()
    rows[place]?.querySelector('button')?.focus()
  }

  #reach(star: HTMLButtonElement | null): void {
    if (this.#reached !== null) this.#reached.tabIndex = -1
    this.#reached = star
    if (star !== null) star.tabIndex = 0
  }

  #star(user: string, name: string): void {
    if (!this.#stars.delete(user)) this.#stars.set(user, name)
    for (const [id, row] of this.#rows) this.#press(row, id)
    this.#listen()
  }

  /** Asks for the starred, and shows them, here or not. */
  #listen(): void {
    this.#stopContacts?.()
    this.#contacts?.close()
    this.#contacts = null
    this.#stopContacts = null
    const room = this.#room
    if (room === null || this.#stars.size === 0) {
      this.#mine.replaceChildren()
      return
    }
    this.#contacts = room.contacts([...this.#stars.keys()])
    this.#stopContacts = this.#contacts.subscribe((present) => {
      const here = new Map(present.map((member) => [member.user, member]))
      this.#mine.replaceChildren(
        ...[...this.#stars].map(([user, name]) => chip(user, name, here.get(user) ?? null)),
      )
    })
  }

  #render(members: readonly Member[]): void {
    const present = new Set(members.map(({ user }) => user))
    for (const [user, { item }] of this.#rows) {
      if (present.has(user)) continue
      this.#rows.delete(user)
      item.remove()
    }
    let place: Element | null = this.#list.firstElementChild
    for (const member of members) {
      const row = this.#rows.get(member.user) ?? this.#add(member.user)
      if (row.shown !== member) this.#fill(row, member)
      if (row.item === place) place = place.nextElementSibling
      else this.#list.insertBefore(row.item, place)
    }
    if (this.#reached?.isConnected !== true) this.#reach(this.#list.querySelector('button'))
    // A high window may show more than one page has.
    this.#more()
  }

  #add(user: string): Row {
    const item = document.createElement('li')
    item.className = 'seat'
    const face = document.createElement('span')
    face.className = 'small'
    face.setAttribute('aria-hidden', 'true')
    const name = document.createElement('bdi')
    name.className = 'member'
    const detail = document.createElement('span')
    detail.className = 'detail'
    const star = document.createElement('button')
    star.type = 'button'
    star.tabIndex = -1
    star.className = 'star'
    star.dataset.star = user
    item.append(face, name, detail, star)
    const row = { item, face, name, detail, star, shown: null }
    this.#rows.set(user, row)
    return row
  }

  #fill(row: Row, member: Member): void {
    row.shown = member
    const name = nameOf(member)
    paint(row.item, member.user, member.info)
    row.item.dataset.status = member.status
    row.face.textContent = initials(name)
    row.name.textContent = name
    row.detail.textContent = member.status
    row.star.title = name
    this.#press(row, member.user)
  }

  #press({ star }: Row, user: string): void {
    const on = this.#stars.has(user)
    star.textContent = on ? '★' : '☆'
    star.setAttribute('aria-pressed', String(on))
    star.setAttribute('aria-label', `${star.title}: one of my people`)
  }
}

function chip(user: string, name: string, member: Member | null): HTMLLIElement {
  const item = document.createElement('li')
  item.className = 'chip'
  paint(item, user, member?.info ?? {})
  item.dataset.status = member?.status ?? 'absent'
  const label = document.createElement('bdi')
  label.textContent = member === null ? name : nameOf(member)
  const state = document.createElement('span')
  state.textContent = member === null ? 'not here' : member.status
  item.append(label, state)
  return item
}
