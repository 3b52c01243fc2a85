// @vitest-environment happy-dom
import { expect, test, vi } from 'vitest'
import { browserEnvironment } from '../src/browser.ts'
import { idleAfterMs } from '../src/core/activity.ts'
import { createClient } from '../src/index.ts'
import { World } from './fake/world.ts'

test('the page tells of input, visibility, going and coming', async () => {
  const world = new World()
  const signals = [window, document].flatMap((target) => {
    const listen = vi.spyOn(target, 'addEventListener')
    return () => listen.mock.calls.map(([, , options]) => (options as AddEventListenerOptions).signal)
  })
  const hidden = vi.spyOn(document, 'hidden', 'get')
  const client = world.client('ana', {}, browserEnvironment().page)
  const room = client.enter('r')
  const status = () => room.self.get()?.status
  const states: string[] = []
  client.connection.subscribe((state) => states.push(state))
  await world.pass(idleAfterMs + 1_000)
  expect(status()).toBe('idle')
  document.body.addEventListener('keydown', (event) => event.stopPropagation())
  document.body.dispatchEvent(new Event('keydown', { bubbles: true }))
  await world.pass(1_000)
  expect(status()).toBe('active')
  hidden.mockReturnValue(true)
  document.dispatchEvent(new Event('visibilitychange'))
  await world.pass(1_000)
  expect(status()).toBe('away')
  for (const wake of [
    () => document.dispatchEvent(new Event('resume')),
    () => window.dispatchEvent(Object.assign(new Event('pageshow'), { persisted: true })),
    () => window.dispatchEvent(new Event('online')),
  ]) {
    states.length = 0
    window.dispatchEvent(new Event('pagehide'))
    window.dispatchEvent(new Event('pageshow'))
    await world.pass(60_000)
    expect(states).toEqual(['reconnecting'])
    wake()
    await world.pass()
    expect(states).toEqual(['reconnecting', 'connected'])
  }
  client.close()
  const all = signals.flatMap((of) => of())
  expect(all.length).toBeGreaterThan(0)
  expect(all.filter((signal) => !signal?.aborted)).toEqual([])
  world.end()
})

test('a client of this page opens nothing before it enters a room', () => {
  const socket = vi.fn()
  vi.stubGlobal('WebSocket', socket)
  const client = createClient({ url: 'https://presence.example.com/v1/' })
  expect(client.connection.get()).toBe('initial')
  expect(socket).not.toHaveBeenCalled()
  client.close()
  expect(() => client.enter('r')).toThrow('closed')
  expect(() => createClient({ url: 'ftp://x' })).toThrow('url')
  vi.unstubAllGlobals()
})
