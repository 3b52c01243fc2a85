import type { Tabs } from '../../src/shared.ts'

interface Wait {
  readonly tab: FakeTab
  readonly held: () => void
}

/** The locks and channels of one browser in memory. Posts are cloned, and come a moment later. */
export class FakeBrowser {
  readonly #locks = new Map<string, Wait[]>()
  readonly #channels = new Set<{ tab: FakeTab; name: string; onPost: (post: unknown) => void }>()
  #serial = 0

  tab(): FakeTab {
    return new FakeTab(this)
  }

  /** Who holds the only lock that all tabs want. */
  get leader(): FakeTab | undefined {
    const shared = [...this.#locks].find(([name]) => !/ tab\d+$/.test(name))
    return shared?.[1][0]?.tab
  }

  get locks(): number {
    return [...this.#locks.values()].reduce((sum, waiting) => sum + waiting.length, 0)
  }

  lock(tab: FakeTab, name: string, held: () => void): () => void {
    if (tab.isGone) return () => {}
    const waiting = this.#locks.get(name) ?? []
    this.#locks.set(name, waiting)
    const wait = { tab, held }
    waiting.push(wait)
    if (waiting.length === 1) this.#grant(waiting)
    return () => this.#release(waiting, wait)
  }

  channel(tab: FakeTab, name: string, onPost: (post: unknown) => void) {
    const own = { tab, name, onPost }
    this.#channels.add(own)
    return {
      post: (message: object) => {
        if (!this.#channels.has(own)) return
        const copy = structuredClone(message)
        for (const other of this.#channels) {
          if (other === own || other.name !== name) continue
          Promise.resolve().then(() => this.#channels.has(other) && other.onPost(copy))
        }
      },
      close: () => void this.#channels.delete(own),
    }
  }

  /** The tab is gone, without a word. */
  crash(tab: FakeTab): void {
    tab.isGone = true
    for (const channel of this.#channels) if (channel.tab === tab) this.#channels.delete(channel)
    for (const waiting of this.#locks.values()) {
      for (const wait of [...waiting]) if (wait.tab === tab) this.#release(waiting, wait)
    }
  }

  newId(): string {
    return `tab${++this.#serial}`
  }

  #grant(waiting: Wait[]): void {
    const [first] = waiting
    Promise.resolve().then(() => first !== undefined && waiting[0] === first && first.held())
  }

  #release(waiting: Wait[], wait: Wait): void {
    const at = waiting.indexOf(wait)
    if (at === -1) return
    waiting.splice(at, 1)
    if (at === 0 && waiting.length > 0) this.#grant(waiting)
  }
}

export class FakeTab implements Tabs {
  readonly browser: FakeBrowser
  isGone = false

  constructor(browser: FakeBrowser) {
    this.browser = browser
  }

  lock = (name: string, held: () => void) => this.browser.lock(this, name, held)
  channel = (name: string, onPost: (post: unknown) => void) => this.browser.channel(this, name, onPost)
  newId = () => this.browser.newId()
  decode = (base64: string) => Buffer.from(base64, 'base64').toString('latin1')
}
