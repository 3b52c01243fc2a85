import { type Member, nameOf } from '@rollcall/client'
import { hue, initials, tint } from './avatar.ts'

interface Card {
  readonly item: HTMLLIElement
  readonly face: HTMLElement
  readonly name: HTMLElement
  readonly detail: HTMLElement
  readonly spoken: HTMLElement
}

const calm = matchMedia('(prefers-reduced-motion: reduce)')

/** The list of people: one card per user, kept from one rendering to the next. */
export class People {
  readonly #list: HTMLUListElement
  readonly #cards = new Map<string, Card>()

  constructor(list: HTMLUListElement) {
    this.#list = list
  }

  render(members: readonly Member[], self: string | null): void {
    const before = calm.matches ? null : this.#positions()
    const present = new Set(members.map(({ user }) => user))
    for (const [user, card] of this.#cards) {
      if (present.has(user)) continue
      this.#cards.delete(user)
      card.item.remove()
    }
    let place: Element | null = this.#list.firstElementChild
    for (const member of members) {
      const card = this.#cards.get(member.user) ?? this.#add(member.user)
      fill(card, member, member.user === self)
      if (card.item === place) place = place.nextElementSibling
      else this.#list.insertBefore(card.item, place)
    }
    if (before) this.#glide(before)
  }

  #add(user: string): Card {
    const item = document.createElement('li')
    item.className = 'person'
    const face = element('span', 'face')
    const name = element('bdi', 'name')
    const detail = element('span', 'detail')
    const round = element('span', 'round')
    round.append(face, element('span', 'dot'))
    // The dot is seen, not heard: so the card is heard as one sentence instead of its parts.
    const spoken = element('span', 'spoken')
    for (const seen of [round, name, detail]) seen.setAttribute('aria-hidden', 'true')
    item.append(round, name, detail, spoken)
    const card = { item, face, name, detail, spoken }
    this.#cards.set(user, card)
    return card
  }

  #positions(): Map<string, DOMRect> {
    return new Map([...this.#cards].map(([user, { item }]) => [user, item.getBoundingClientRect()]))
  }

  /** Whoever had to move glides there, and a newcomer grows in: nothing jumps. */
  #glide(before: ReadonlyMap<string, DOMRect>): void {
    for (const [user, { item }] of this.#cards) {
      const old = before.get(user)
      if (old === undefined) {
        item.animate(
          { opacity: [0, 1], scale: [0.8, 1] },
          { duration: 260, easing: 'cubic-bezier(.2,.9,.3,1.2)' },
        )
        continue
      }
      const now = item.getBoundingClientRect()
      const x = old.left - now.left
      const y = old.top - now.top
      if (x === 0 && y === 0) continue
      item.animate({ translate: [`${x}px ${y}px`, '0 0'] }, { duration: 240, easing: 'ease-out' })
    }
  }
}

function fill({ item, face, name, detail, spoken }: Card, member: Member, isSelf: boolean): void {
  const shown = nameOf(member)
  const tabs = member.connections === 1 ? '1 tab' : `${member.connections} tabs`
  const notes = [
    isSelf ? 'you' : '',
    member.status === 'active' ? '' : member.status,
    member.connections > 1 ? tabs : '',
    member.stale ? 'last known' : '',
  ]
  paint(item, member.user, member.info)
  write(face, initials(shown))
  write(name, shown)
  write(detail, notes.filter((note) => note !== '').join(' · '))
  item.dataset.status = member.status
  item.toggleAttribute('data-self', isSelf)
  item.toggleAttribute('data-stale', member.stale === true)
  const whole = `${shown}${isSelf ? ' (you)' : ''}, ${member.status}, ${tabs}`
  item.title = whole
  write(spoken, whole)
}

/** The colour of a person: the server's if it gave one, else one that belongs to the id. */
export function paint(node: HTMLElement, user: string, info: Member['info']): void {
  const color = tint(info)
  // By the style object: the page's policy forbids style attributes, not this.
  node.style.setProperty(color === null ? '--hue' : '--tint', color ?? String(hue(user)))
  node.toggleAttribute('data-tinted', color !== null)
}

/** Only what changed: a screen reader is not to hear the same again. */
function write(node: HTMLElement, text: string): void {
  if (node.textContent !== text) node.textContent = text
}

function element(tag: string, className: string): HTMLElement {
  const node = document.createElement(tag)
  node.className = className
  return node
}
