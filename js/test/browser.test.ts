// @vitest-environment happy-dom
import { expect, test, vi } from 'vitest'
import { browserEnvironment } from '../src/browser.ts'
import { createClient } from '../src/index.ts'

test('the page tells of input, visibility, going and coming', () => {
  const { page } = browserEnvironment()
  const said: string[] = []
  const stops = [
    page?.onInput(() => said.push('input')),
    page?.onVisibility(() => said.push('visibility')),
    page?.onHide(() => said.push('hide')),
    page?.onWake((why) => said.push(why)),
  ]
  const say = () => {
    document.body.dispatchEvent(new Event('keydown', { bubbles: true }))
    document.dispatchEvent(new Event('visibilitychange'))
    window.dispatchEvent(new Event('pagehide'))
    window.dispatchEvent(new Event('pageshow'))
    window.dispatchEvent(Object.assign(new Event('pageshow'), { persisted: true }))
    window.dispatchEvent(new Event('online'))
    document.dispatchEvent(new Event('resume'))
  }
  say()
  expect(said).toEqual(['input', 'visibility', 'hide', 'restored', 'online', 'resumed'])
  for (const stop of stops) stop?.()
  say()
  expect(said.length).toBe(6)
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
