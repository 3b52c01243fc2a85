import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { leaseMs, url } from '../server.ts'
import { launch } from './chromium.ts'

/* What happens to tabs of a real browser, and what a watcher sees of it on the real server. */

describe('tabs of a real browser', { timeout: 90_000 }, () => {
  let browser: Awaited<ReturnType<typeof launch>>
  let watching: Awaited<ReturnType<typeof launch>>
  let serial = 0

  beforeAll(async () => {
    browser = await launch()
    watching = await launch()
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    await watching?.close()
  })

  /** A room with somebody in it who notes, in another browser, who comes and goes. */
  async function room(): Promise<{
    open(user: string): Promise<Page>
    watcher: Page
    left(): Promise<string>
  }> {
    const name = `life:${process.pid}-${++serial}`
    const at = (user: string) => `${url}/?room=${name}&user=${user}&name=${user}`
    const enter = async (page: Page, user: string) => {
      await page.goto(at(user))
      await page.locator('#state[data-state=live]').waitFor({ timeout: 40_000 })
      return page
    }
    const watcher = await enter(await watching.context.newPage(), 'watcher')
    await watcher.evaluate(() => {
      const log = document.getElementById('notice') as HTMLElement
      new MutationObserver(() => {
        document.body.dataset.log = `${document.body.dataset.log ?? ''}|${log.textContent}`
      }).observe(log, { childList: true })
    })
    return {
      watcher,
      open: async (user) => enter(await browser.context.newPage(), user),
      left: () => watcher.evaluate(() => document.body.dataset.log ?? ''),
    }
  }

  const card = (watcher: Page, user: string) => watcher.locator('.person', { hasText: user })

  test('A35: eight tabs on HTTP/1.1 are one member with eight connections, and seven may go', async () => {
    const { open, watcher, left } = await room()
    const tabs: Page[] = []
    for (let i = 0; i < 8; i++) tabs.push(await open('ana'))
    await card(watcher, 'ana').locator('.detail', { hasText: '8 tabs' }).waitFor()
    for (const tab of tabs.splice(1)) await tab.close()
    await expect.poll(() => card(watcher, 'ana').getAttribute('title')).toContain('1 tab')
    expect(await left()).not.toContain('left')
    await tabs[0]?.close()
    await card(watcher, 'ana').waitFor({ state: 'detached' })
    await watcher.close()
  })

  test('A42: a duplicated tab is a second connection, and each may go without the other', async () => {
    const { open, watcher, left } = await room()
    const first = await open('ana')
    // A window that a page opens begins with a copy of its sessionStorage, as a duplicated tab does.
    const [second] = await Promise.all([
      first.waitForEvent('popup'),
      first.evaluate(() => void window.open(location.href)),
    ])
    await second.locator('#state[data-state=live]').waitFor()
    await card(watcher, 'ana').locator('.detail', { hasText: '2 tabs' }).waitFor()
    await first.locator('#state[data-state=live]').waitFor()
    await first.close()
    await expect.poll(() => card(watcher, 'ana').getAttribute('title')).toContain('1 tab')
    await second.locator('#state[data-state=live]').waitFor()
    expect(await left()).not.toContain('left')
    await second.close()
    await watcher.close()
  })

  test('a page that is frozen for longer than a lease is nobody who left, and is one connection after', async () => {
    const { open, watcher, left } = await room()
    const page = await open('ana')
    const session = await page.context().newCDPSession(page)
    await card(watcher, 'ana').waitFor()
    await session.send('Page.setWebLifecycleState', { state: 'frozen' })
    // The browser goes on answering for it: that is what is looked at, for as long as it takes.
    await watcher.waitForTimeout(leaseMs + 1_000)
    await session.send('Page.setWebLifecycleState', { state: 'active' })
    await page.locator('#state[data-state=live]').waitFor()
    await expect.poll(() => card(watcher, 'ana').getAttribute('title')).toContain('1 tab')
    expect(await left()).not.toContain('left')
    await page.close()
    await watcher.close()
  })

  test('a tab that crashes is gone within a lease', async () => {
    const { open, watcher } = await room()
    const page = await open('ana')
    await card(watcher, 'ana').waitFor()
    const crashed = page.waitForEvent('crash')
    void page.goto('chrome://crash').catch(() => {})
    await crashed
    await card(watcher, 'ana').waitFor({ state: 'detached', timeout: leaseMs + 5_000 })
    await page.close()
    await watcher.close()
  })
})
