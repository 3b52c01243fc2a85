/** How long a line stays before the next may take its place. */
const holdMs = 2_500
/** Old news is no news. */
const fadeMs = 20_000

/**
 * The line that says who came and went. Calm: what happens while a line is held is gathered into the
 * next one, and someone who came and went meanwhile is not worth a word.
 */
export class Notice {
  readonly #line: HTMLElement
  /** By user: the net change since the last line. */
  readonly #waiting = new Map<string, { name: string; joined: boolean }>()
  #timer: ReturnType<typeof setTimeout> | null = null

  constructor(line: HTMLElement) {
    this.#line = line
  }

  add(user: string, name: string, joined: boolean): void {
    const before = this.#waiting.get(user)
    if (before && before.joined !== joined) this.#waiting.delete(user)
    else this.#waiting.set(user, { name, joined })
    // A moment of patience lets a crowd arrive as one line.
    this.#timer ??= setTimeout(() => this.#show(), 120)
  }

  clear(): void {
    this.#waiting.clear()
    this.#line.replaceChildren()
  }

  #show(): void {
    this.#timer = null
    if (this.#waiting.size === 0) return
    const names = (joined: boolean) =>
      [...this.#waiting.values()].filter((entry) => entry.joined === joined).map(({ name }) => name)
    const text = [sentence(names(true), 'joined'), sentence(names(false), 'left')]
      .filter((text) => text !== '')
      .join(', ')
    // A new node each time: the same sentence twice is two events.
    const line = document.createElement('span')
    line.textContent = text
    this.#line.replaceChildren(line)
    setTimeout(() => line.remove(), fadeMs)
    this.#waiting.clear()
    this.#timer = setTimeout(() => this.#show(), holdMs)
  }
}

const shown = 2

function sentence(names: readonly string[], verb: string): string {
  if (names.length === 0) return ''
  // Isolated, so that a name in another direction does not turn the sentence around.
  const some = names.slice(0, shown).map((name) => `\u2068${name}\u2069`)
  const rest = names.length - some.length
  if (rest > 0) return `${some.join(', ')} and ${rest} more ${verb}`
  return `${some.join(' and ')} ${verb}`
}
