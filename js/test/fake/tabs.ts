import type { Tabs } from '../../src/shared.ts'

type Lock = Parameters<Tabs['lock']>

interface Wait {
  readonly tab: FakeTab
  readonly on: Lock[1]
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

  lock(tab: FakeTab, ...[name, on, steal = false]: Lock): () => void {
    if (tab.isGone) return () => {}
    const waiting = this.#locks.get(name) ?? []
    this.#locks.set(name, waiting)
    const wait = { tab, on }
    if (steal) {
      const robbed = waiting.shift()
      robbed?.tab.run(() => robbed.on.lost?.())
      waiting.unshift(wait)
    } else {
      waiting.push(wait)
    }
    if (waiting[0] === wait) this.#grant(waiting)
    return () => this.#release(waiting, wait)
  }

  channel(tab: FakeTab, name: string, onPost: (post: unknown) => void) {
    const own = { tab, name, onPost }
    this.#channels.add(own)
    return {
      post: (message: object) => {
        if (!this.#channels.has(own) || tab.isFrozen) return
        const copy = structuredClone(message)
        for (const other of this.#channels) {
          if (other === own || other.name !== name) continue
          other.tab.run(() => this.#channels.has(other) && other.onPost(copy))
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
    first?.tab.run(() => waiting[0] === first && first.on.held())
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
  #frozen: (() => void)[] | null = null

  constructor(browser: FakeBrowser) {
    this.browser = browser
  }

  get isFrozen(): boolean {
    return this.#frozen !== null
  }

  /** What comes from outside of the script comes a moment later, or when the tab is thawed. */
  run(fn: () => void): void {
    if (this.#frozen !== null) this.#frozen.push(fn)
    else void Promise.resolve().then(fn)
  }

  /** Nothing goes from here to other tabs, as if the script stood still. */
  freeze(): void {
    this.#frozen = []
  }

  thaw(): void {
    const late = this.#frozen ?? []
    this.#frozen = null
    for (const fn of late) fn()
  }

  lock = (...lock: Lock) => this.browser.lock(this, ...lock)
  channel = (name: string, onPost: (post: unknown) => void) => this.browser.channel(this, name, onPost)
  newId = () => this.browser.newId()
  decode = (base64: string) => Buffer.from(base64, 'base64').toString('latin1')
}
