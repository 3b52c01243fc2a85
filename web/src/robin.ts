import {
  browserEnvironment,
  type Client,
  createClient,
  type Environment,
  type Socket,
  type SocketEvents,
} from '@rollcall/client'

/** A socket whose end can be sudden: only the server can cut a line, so it is asked to. */
class Line {
  readonly #socket: WebSocket
  readonly #name = crypto.randomUUID()
  readonly #deliver: (fn: () => void) => void
  #whole = true

  constructor(url: string, protocols: string[], deliver: (fn: () => void) => void) {
    this.#socket = new WebSocket(`${url}&link=${this.#name}`, protocols)
    this.#deliver = deliver
  }

  /** For the client: what comes passes through `deliver`, which may delay it or drop it. */
  socket(): Socket {
    const socket = this.#socket
    return {
      get readyState() {
        return socket.readyState
      },
      send: (text) => {
        if (this.#whole) socket.send(text)
      },
      close: (code, reason) => {
        if (this.#whole) socket.close(code, reason)
      },
      addEventListener: (type, fn) =>
        socket.addEventListener(type, (event) =>
          this.#deliver(() => fn(event as unknown as SocketEvents[typeof type])),
        ),
    }
  }

  /** Ends the connection without a word, as a cable that is pulled does. */
  cut(): void {
    this.#whole = false
    void fetch(`demo/cut?link=${this.#name}`, { method: 'POST' })
  }
}

/**
 * A guest of this page's own making, to whom everything that goes wrong with a tab can be done. It is
 * a whole client on a whole connection; only what it knows of its page, and its cable, are ours.
 */
export class Robin {
  readonly #client: Client
  readonly #window = new EventTarget()
  readonly #document = Object.assign(new EventTarget(), { hidden: false })
  #line: Line | null = null
  /** What a frozen script has yet to do; null while it runs. */
  #frozen: (() => void)[] | null = null
  #linked = true
  #dead = false

  constructor(room: string, user: string, name: string) {
    this.#client = createClient({ guest: { user, name }, transport: 'websocket' }, this.#environment())
    this.#client.enter(room)
  }

  get hidden(): boolean {
    return this.#document.hidden
  }

  /** Says goodbye. */
  leave(): void {
    this.#client.close()
  }

  /** As closing the tab does: the page says that it goes, and then it is gone. */
  closeTab(): void {
    this.#window.dispatchEvent(new Event('pagehide'))
    this.kill()
  }

  /** As a crash of the browser does. */
  kill(): void {
    this.#line?.cut()
    this.#dead = true
    this.#client.close()
  }

  /** As a cable that is pulled out. */
  unplug(): void {
    this.#linked = false
    this.#line?.cut()
  }

  plug(): void {
    this.#linked = true
    this.#window.dispatchEvent(new Event('online'))
  }

  /** The script stands still: no timer, no message. */
  freeze(): void {
    this.#frozen ??= []
  }

  thaw(): void {
    const late = this.#frozen ?? []
    this.#frozen = null
    for (const fn of late) fn()
  }

  hide(hidden: boolean): void {
    this.#document.hidden = hidden
    this.#document.dispatchEvent(new Event('visibilitychange'))
  }

  #run(fn: () => void): void {
    if (this.#dead) return
    if (this.#frozen !== null) this.#frozen.push(fn)
    else fn()
  }

  #environment(): Environment {
    const browser = browserEnvironment()
    const isCut = () => this.#dead || !this.#linked
    return {
      ...browser,
      page: { window: this.#window, document: this.#document },
      openSocket: (url, protocols) => {
        if (isCut()) throw new Error('there is no network')
        this.#line = new Line(url, protocols, (fn) => this.#run(fn))
        return this.#line.socket()
      },
      platform: {
        AbortController,
        TextDecoder,
        fetch: (url, request) =>
          isCut()
            ? Promise.reject(new TypeError('there is no network'))
            : browser.platform.fetch(url, request),
        navigator: { sendBeacon: (url, text) => !isCut() && navigator.sendBeacon(url, text) },
      },
      setTimer: (fn, ms) => browser.setTimer(() => this.#run(fn), ms),
    }
  }
}
