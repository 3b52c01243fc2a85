import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launch } from './chromium.ts'
import { watch } from './watch.ts'

/* Tabs of a real browser over event streams on HTTP/1.1, where it has six connections for all of them. */

describe('tabs that share a connection', { timeout: 60_000 }, () => {
  let browser: Awaited<ReturnType<typeof launch>>

  beforeAll(async () => {
    browser = await launch()
    // As where no WebSocket gets through, but without the wait until that is known.
    await browser.context.addInitScript(() => Object.assign(window, { WebSocket: undefined }))
  }, 60_000)
  afterAll(() => browser?.close())

  async function open(address: string): Promise<Page> {
    const page = await browser.context.newPage()
    await page.goto(address)
    await page.locator('#state[data-state=live]').waitFor()
    return page
  }

  const names = (page: Page) => page.locator('#people .name').allTextContents()
  const all = (pages: readonly Page[], ...shown: string[]) =>
    expect
      .poll(() => Promise.all(pages.map(names)), { timeout: 10_000 })
      .toEqual(pages.map(() => expect.toSatisfy((seen) => `${[...seen].sort()}` === `${shown}`)))

  /** The tab that has the connection: the lock is its. */
  async function leaderOf(pages: readonly Page[]): Promise<Page> {
    const leads = (page: Page) =>
      page.evaluate(() =>
        navigator.locks.request('who am I', async () => {
          const { held = [] } = await navigator.locks.query()
          const me = held.find(({ name }) => name === 'who am I')?.clientId
          return held.some(({ name, clientId }) => clientId === me && /^rollcall .*\]$/.test(name ?? ''))
        }),
      )
    const which = await Promise.all(pages.map(leads))
    expect(which.filter(Boolean)).toHaveLength(1)
    return pages[which.indexOf(true)] as Page
  }

  test('A35: eight tabs are one connection; whichever goes, and however, the others go on', async () => {
    const watched = await watch()
    const tabs = await Promise.all(Array.from({ length: 8 }, () => open(watched.address('ana'))))
    await all(tabs, 'Watcher', 'ana')
    await watched.until('ana', 1)
    const lead = async () => {
      const leader = await leaderOf(tabs)
      tabs.splice(tabs.indexOf(leader), 1)
      return leader
    }

    await (await lead()).close()
    const ben = await open(watched.address('ben'))
    await all(tabs, 'Watcher', 'ana', 'ben')

    const leader = await lead()
    const crashed = leader.waitForEvent('crash')
    void leader.goto('chrome://crash').catch(() => {})
    await crashed
    await ben.close()
    await all(tabs, 'Watcher', 'ana')

    await watched.until('ana', 1)
    expect(tabs).toHaveLength(6)
    expect(watched.events).toEqual(['join ana', 'join ben', 'leave ben closed'])
    await Promise.all([leader, ...tabs].map((tab) => tab.close()))
    await watched.until('ana', 0)
    watched.close()
  })
})
