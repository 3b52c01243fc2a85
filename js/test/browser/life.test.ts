import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { leaseMs } from '../server.ts'
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

  async function open(watched: Watch, user: string): Promise<Page> {
    const page = await browser.context.newPage()
    await page.goto(watched.address(user))
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

  test('a page that is frozen for longer than a lease is nobody who left, and is one connection after', async () => {
    const watched = await watch()
    const page = await open(watched, 'ana')
    const session = await page.context().newCDPSession(page)
    await watched.until('ana', 1)
    await session.send('Page.setWebLifecycleState', { state: 'frozen' })
    // The browser goes on answering for it: that is what is looked at, for as long as it takes.
    await page.waitForTimeout(leaseMs + 1_000)
    await session.send('Page.setWebLifecycleState', { state: 'active' })
    await live(page)
    await watched.until('ana', 1)
    expect(watched.events).toEqual(['join ana'])
    await page.close()
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
