import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { leaseMs } from '../server.ts'
import { launchPlain, type PlainBrowser, type PlainTab } from './plain.ts'
import { type Watch, watch } from './watch.ts'

/* Tabs that nobody looks at: behind another, and behind another page of the same tab. */

const noSockets = 'Object.assign(window, { WebSocket: undefined })'
const transports = [
  ['websocket', ''],
  ['sse', noSockets],
] as const

describe('tabs in the background', { timeout: 60_000 }, () => {
  let browser: PlainBrowser

  beforeAll(async () => {
    browser = await launchPlain('--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/0')
  }, 60_000)
  afterAll(() => browser?.close())

  const eventually = (fn: () => unknown, ms = 10_000) => expect.poll(fn, { timeout: ms, interval: 50 })
  const live = (tab: PlainTab) =>
    eventually(() => tab.evaluate(`document.getElementById('state')?.dataset.state`)).toBe('live')

  /** A tab behind another, whose timers stand still: a browser allows them one wake-up a minute. */
  async function stalled(
    watched: Watch,
    user: string,
  ): Promise<{ tab: PlainTab; silence(): Promise<number> }> {
    const ticking = 'lastTick = 0, setInterval(() => { lastTick = performance.now() }, 50)'
    const front = await browser.open('about:blank')
    for (;;) {
      const tab = await browser.open(watched.address(user), `${noSockets}\n;${ticking}`)
      await front.show()
      await live(tab)
      const silence = async () => (await tab.evaluate('performance.now() - lastTick')) as number
      // The browser does so at once with pages that are hidden while they load, and a minute later with others.
      for (const hidden = performance.now(); performance.now() - hidden < 9_000; await sleep(100)) {
        if ((await silence()) > 2_000) return { tab, silence }
      }
      await tab.close()
    }
  }

  test('A14: a hidden tab whose timers stand still is present for as long as it is open', async () => {
    const watched = await watch()
    const { tab, silence } = await stalled(watched, 'hidden')
    const told = watched.events.length
    await eventually(silence, leaseMs * 4).toBeGreaterThan(leaseMs * 2)
    expect(watched.events.length).toBe(told)
    expect(watched.member('hidden')).toMatchObject({ status: 'away', connections: 1 })
    await tab.show()
    await eventually(() => watched.member('hidden')?.status, 2_000).toBe('active')
    await tab.close()
    await watched.until('hidden', 0)
    watched.close()
  })

  test.each(transports)(
    'A41: back from the cache the tab is there at once, and once: %s',
    async (name, script) => {
      const watched = await watch()
      const noting = `addEventListener('pageshow', ({ persisted }) => { kept = persisted })`
      const tab = await browser.open(watched.address(name), `${script}\n;${noting}`)
      await live(tab)
      await watched.until(name, 1)
      await tab.evaluate(`location.href = '/icon.svg'`)
      await watched.until(name, 0)
      await tab.evaluate('history.back()').catch(() => {})
      await watched.until(name, 1)
      await live(tab)
      expect(await tab.evaluate('kept')).toBe(true)
      const names = `[...document.querySelectorAll('.person .name')].map((e) => e.textContent).sort()`
      expect(await tab.evaluate(names)).toEqual(['Watcher', name])
      expect(watched.events).toEqual([`join ${name}`, `leave ${name} closed`, `join ${name}`])
      await tab.close()
      watched.close()
    },
  )
})
