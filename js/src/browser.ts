import type { Environment, HttpRequest, HttpResponse, Page, Socket } from './core/environment.ts'

/** The environment of a browser page or worker. */
export function browserEnvironment(): Environment {
  const hasSocket = typeof WebSocket === 'function'
  return {
    openSocket: hasSocket ? (url, protocols) => new WebSocket(url, protocols) as Socket : null,
    fetch: (url, request: HttpRequest) => fetch(url, request as RequestInit) as Promise<HttpResponse>,
    newAbort: () => new AbortController(),
    newDecoder: () => new TextDecoder(),
    sendBeacon: (url, text) =>
      typeof navigator !== 'undefined' && typeof navigator.sendBeacon === 'function'
        ? navigator.sendBeacon(url, text)
        : false,
    page: typeof document === 'undefined' ? null : browserPage(window, document),
    now: () => performance.now(),
    setTimer: (fn, ms) => setTimeout(fn, ms),
    clearTimer: (timer) => clearTimeout(timer as ReturnType<typeof setTimeout>),
    random: () => Math.random(),
    // Surfaces as an uncaught error, as it would had the application called itself.
    report: (error) => (typeof reportError === 'function' ? reportError(error) : console.error(error)),
    // Fetched with the event streams that it is for. Without it, or outside a page, each tab has its own.
    tabs: (address) =>
      typeof location === 'undefined'
        ? Promise.resolve(null)
        : import('./tabs.ts').then(
            ({ streamTabs }) => streamTabs(address),
            () => null,
          ),
    origin: typeof location === 'undefined' ? null : location.origin,
  }
}

const inputs = ['pointerdown', 'pointermove', 'keydown', 'wheel', 'touchstart'] as const

function browserPage(target: Window, page: Document): Page {
  const listen = (on: EventTarget, type: string, fn: (event: Event) => void) => {
    // Capture: the application may stop the propagation of its own events.
    const options = { capture: true, passive: true }
    on.addEventListener(type, fn, options)
    return () => on.removeEventListener(type, fn, options)
  }
  const all = (stops: (() => void)[]) => () => {
    for (const stop of stops) stop()
  }
  return {
    hidden: () => page.visibilityState === 'hidden',
    onInput: (fn) => all(inputs.map((type) => listen(target, type, fn))),
    onVisibility: (fn) => listen(page, 'visibilitychange', fn),
    onHide: (fn) => listen(target, 'pagehide', fn),
    onWake: (fn) =>
      all([
        listen(target, 'pageshow', (event) => {
          if ((event as PageTransitionEvent).persisted) fn('restored')
        }),
        listen(target, 'online', () => fn('online')),
        listen(page, 'resume', () => fn('resumed')),
      ]),
  }
}
