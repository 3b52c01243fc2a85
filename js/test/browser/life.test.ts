import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { leaseMs } from '../server.ts'
import { cable } from './cable.ts'
import { launch } from './chromium.ts'
import { type Watch, watch } from './watch.ts'

/* What happens to tabs of a real browser, and what a watcher sees of it on the real server. */

describe('tabs of a real browser', { timeout: 60_000 }, () => {
  let browser: Awaited<ReturnType<typeof launch>>

  beforeAll(async () => {
    browser = await launch()
  }, 60_000)
  afterAll(() => browser?.close())

  const live = (page: Page) => page.locator('#state[data-state=live]').waitFor({ timeout: 40_000 })

  async function open(watched: Watch, user: string, base?: string): Promise<Page> {
    const page = await browser.context.newPage()
    await page.goto(watched.address(user, base))
    await live(page)
    return page
  }

  test('A35: eight tabs on HTTP/1.1 are one member with eight connections, and seven may go', async () => {
    const watched = await watch()
    const tabs = await Promise.all(Array.from({ length: 8 }, () => open(watched, 'ana')))
    await watched.until('ana', 8)
    for (const tab of tabs.splice(1)) await tab.close()
    await watched.until('ana', 1)
    expect(watched.events).toEqual(['join ana'])
    await tabs[0]?.close()
    await watched.until('ana', 0)
    watched.close()
  })

  test('A42: a duplicated tab is a second connection, and each may go without the other', async () => {
    const watched = await watch()
    const first = await open(watched, 'ana')
    // A window that a page opens begins with a copy of its sessionStorage, as a duplicated tab does.
    const [second] = await Promise.all([
      first.waitForEvent('popup'),
      first.evaluate(() => void window.open(location.href)),
    ])
    await live(second)
    await watched.until('ana', 2)
    await live(first)
    await first.close()
    await watched.until('ana', 1)
    await live(second)
    expect(watched.events).toEqual(['join ana'])
    await second.close()
    watched.close()
  })

  test('offline for a moment: the others stay on the page, nobody sees a leave, and online it is back at once', async () => {
    const [watched, line] = [await watch(), await cable()]
    const page = await open(watched, 'ana', line.url)
    await watched.until('ana', 1)
    await page.evaluate(() => {
      const people = document.getElementById('people') as HTMLElement
      Object.assign(window, { fewest: people.children.length })
      new MutationObserver(() => {
        const seen = window as unknown as { fewest: number }
        seen.fewest = Math.min(seen.fewest, people.children.length)
      }).observe(people, { childList: true })
    })
    const session = await browser.context.newCDPSession(page)
    const network = (offline: boolean) =>
      session.send('Network.emulateNetworkConditions', {
        offline,
        latency: 0,
        downloadThroughput: -1,
        uploadThroughput: -1,
      })
    // An offline browser of this kind would still say goodbye to the server, which no broken network lets through.
    line.pull()
    await network(true)
    await page.locator('#state:is([data-state=offline], [data-state=reconnecting])').waitFor()
    // Its first attempts find no network.
    await page.waitForTimeout(leaseMs / 6)
    line.plug()
    await network(false)
    await live(page)
    await watched.until('ana', 1)
    expect(watched.events).toEqual(['join ana'])
    expect(await page.evaluate('fewest')).toBe(2)
    await page.close()
    await line.close()
    watched.close()
  })

  test('a tab that crashes is gone within a lease', async () => {
    const watched = await watch()
    const page = await open(watched, 'ana')
    await watched.until('ana', 1)
    const crashed = page.waitForEvent('crash')
    void page.goto('chrome://crash').catch(() => {})
    await crashed
    await watched.until('ana', 0, leaseMs + 5_000)
    await page.close()
    watched.close()
  })
})
