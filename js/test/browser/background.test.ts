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
    expect(watched.events.slice(told)).toEqual([])
    expect(watched.member('hidden')).toMatchObject({ status: 'away', connections: 1 })
    await tab.show()
    await eventually(() => watched.member('hidden')?.status, 2_000).toBe('active')
    await tab.close()
    await watched.until('hidden', 0)
    watched.close()
  })

  const freeze = async (tab: PlainTab) => {
    await tab.evaluate(`document.addEventListener('freeze', () => { frozen = true }), frozen = false`)
    await tab.send('Page.setWebLifecycleState', { state: 'frozen' })
    await eventually(() => tab.evaluate('frozen')).toBe(true)
  }
  const thaw = (tab: PlainTab) => tab.send('Page.setWebLifecycleState', { state: 'active' })
  const names = (tab: PlainTab) =>
    tab.evaluate(`[...document.querySelectorAll('.person .name')].map((name) => name.textContent).sort()`)

  test('A41: a page that is frozen for longer than a lease is nobody who left, and is one connection after', async () => {
    const watched = await watch()
    const tab = await browser.open(watched.address('cold'))
    await live(tab)
    await freeze(tab)
    // The browser goes on answering for it: that is what is looked at, for as long as it takes.
    await sleep(leaseMs + 1_000)
    expect(watched.member('cold')?.connections).toBe(1)
    await thaw(tab)
    await live(tab)
    await watched.until('cold', 1)
    expect(watched.events).toEqual(['join cold'])
    await tab.close()
    watched.close()
  })

  test('the tab with the connection of all is frozen: another has it in time, and it is one of them when it wakes up', async () => {
    const watched = await watch()
    const tabs: PlainTab[] = []
    for (let i = 0; i < 3; i++) {
      const tab = await browser.open(watched.address('ana'), noSockets)
      await live(tab)
      tabs.push(tab)
    }
    const [first, ...others] = tabs as [PlainTab, ...PlainTab[]]
    await freeze(first)
    // Nobody answers beats for them until another has the lock.
    await sleep(leaseMs * 2)
    const ben = await browser.open(watched.address('ben'))
    for (const tab of others) await eventually(() => names(tab)).toEqual(['Watcher', 'ana', 'ben'])
    expect(watched.member('ana')?.connections).toBe(1)
    await thaw(first)
    await ben.close()
    for (const tab of tabs) await eventually(() => names(tab)).toEqual(['Watcher', 'ana'])
    await watched.until('ana', 1)
    expect(watched.events).toEqual(['join ana', 'join ben', 'leave ben closed'])
    for (const tab of tabs) await tab.close()
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
      expect(await names(tab)).toEqual(['Watcher', name])
      expect(watched.events).toEqual([`join ${name}`, `leave ${name} closed`, `join ${name}`])
      await tab.close()
      watched.close()
    },
  )
})
