import type { Environment, Platform, Socket } from './core/environment.ts'

/** The environment of a browser page or worker. */
export function browserEnvironment(): Environment {
  const hasSocket = typeof WebSocket === 'function'
  return {
    openSocket: hasSocket ? (url, protocols) => new WebSocket(url, protocols) as Socket : null,
    platform: globalThis as Platform,
    page: typeof document === 'undefined' ? null : { window, document },
    now: () => performance.now(),
    setTimer: (fn, ms) => setTimeout(fn, ms),
    clearTimer: (timer) => clearTimeout(timer as ReturnType<typeof setTimeout>),
    random: () => Math.random(),
    // Surfaces as an uncaught error, as it would had the application called itself.
    report: (error) => (globalThis.reportError ?? console.error)(error),
    origin: typeof location === 'undefined' ? null : location.origin,
  }
}
