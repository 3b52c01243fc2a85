import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type FakeHttpServer, serve } from '../fake/http.ts'
import { FakeServer } from '../fake/server.ts'
import { launch } from './chromium.ts'

/* The page at `/`, in a real browser, against the fake server under the real content policy. */

const pages = new URL('../../../web/static/', import.meta.url)
const names = (page: Page) => page.locator('#people .name').allTextContents()

describe('the page', { timeout: 60_000 }, () => {
  let fake: FakeServer
  let server: FakeHttpServer
  let browser: Awaited<ReturnType<typeof launch>>
  const complaints: string[] = []

  beforeAll(async () => {
    fake = new FakeServer({ beatMs: 1_000 }).start()
    server = await serve(fake, pages)
    browser = await launch()
  }, 60_000)
  afterEach(() => server.up())
  afterAll(async () => {
    await browser?.close()
    await server?.close()
    fake?.stop()
    expect(complaints).toEqual([])
  })

  async function open(query: string): Promise<Page> {
    const page = await browser.context.newPage()
    page.on('pageerror', (error) => complaints.push(String(error)))
    page.on('console', (message) => {
      if (/Content.Security.Policy/i.test(message.text())) complaints.push(message.text())
    })
    await page.goto(`${server.url}/${query}`)
    await page.locator('#state[data-state=live]').waitFor()
    return page
  }

  test('two tabs of one browser are one guest; another guest is a second', async () => {
    const one = await open('?room=a')
    const two = await open('?room=a')
    await one.locator('.detail', { hasText: '2 tabs' }).waitFor()
    expect(await names(one)).toHaveLength(1)
    const other = await open('?room=a&user=zed&name=Zed')
    await one.locator('.name', { hasText: 'Zed' }).waitFor()
    await one.locator('#notice', { hasText: 'Zed' }).waitFor()
    expect(await names(two)).toHaveLength(2)
    await other.close()
    await one.locator('#count', { hasText: 'Only you' }).waitFor()
    await one.close()
    await two.close()
  })

  test('renaming keeps the user, shows no leave, and is remembered', async () => {
    const watcher = await open('?room=b&user=watcher&name=Wei')
    const page = await open('?room=b&user=rena&name=Ana')
    await watcher.locator('.name', { hasText: 'Ana' }).waitFor()
    await watcher.evaluate(() => {
      const log = document.getElementById('notice') as HTMLElement
      new MutationObserver(() =>
        document.body.setAttribute('data-log', `${document.body.dataset.log ?? ''}|${log.textContent}`),
      ).observe(log, { childList: true })
    })
    await page.fill('#name', '👩‍👩‍👧 Zoë')
    await page.click('#rename button')
    await watcher.locator('.name', { hasText: 'Zoë' }).waitFor()
    expect(await watcher.locator('.person', { hasText: 'Zoë' }).locator('.face').textContent()).toBe('👩‍👩‍👧')
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    expect(await watcher.evaluate(() => document.body.dataset.log ?? '')).not.toContain('left')
    await page.reload()
    await page.locator('.name', { hasText: 'Zoë' }).waitFor()
    await page.close()
    await watcher.close()
  })

  test('a lost server is said honestly, and nobody disappears meanwhile', async () => {
    const page = await open('?room=c&user=ana&name=Ana')
    const other = await open('?room=c&user=bob&name=Bob')
    await page.locator('.name', { hasText: 'Bob' }).waitFor()
    server.down()
    await page.locator('#state[data-state=reconnecting]').waitFor()
    expect(await names(page)).toEqual(['Ana', 'Bob'])
    await new Promise((resolve) => setTimeout(resolve, 700))
    expect(await names(page)).toEqual(['Ana', 'Bob'])
    server.up()
    await page.locator('#state[data-state=live]').waitFor()
    await other.locator('#state[data-state=live]').waitFor()
    expect(await names(page)).toEqual(['Ana', 'Bob'])
    expect(fake.roster('c').map(({ connections }) => connections)).toEqual([1, 1])
    await page.close()
    await other.close()
  })

  test('the first look at a fresh server is calm, and a long name stays within the margin', async () => {
    fake.options.settlingMs = 30_000
    const page = await browser.context.newPage()
    await page.addInitScript(() => {
      const seen: string[] = []
      Object.assign(window, { seen })
      const look = () => {
        const state = document.getElementById('state')?.dataset.state ?? ''
        if (seen.at(-1) !== state) seen.push(state)
        requestAnimationFrame(look)
      }
      look()
    })
    const name = encodeURIComponent('Anastasia-Wilhelmina Featherstonehaugh-Cholmondeley')
    await page.goto(`${server.url}/?room=fresh&user=ana&name=${name}`)
    await page.locator('#state[data-state=live]').waitFor()
    await page.waitForTimeout(300)
    fake.options.settlingMs = 0
    const { seen, left, margin } = await page.evaluate(() => ({
      seen: (window as unknown as { seen: string[] }).seen.filter((state) => state !== ''),
      left: document.querySelector('.name')?.getBoundingClientRect().left ?? 0,
      margin: document.querySelector('h1')?.getBoundingClientRect().left ?? 0,
    }))
    expect(seen).toEqual(['connecting', 'live'])
    expect(left).toBe(margin)
    await page.close()
  })

  test('pointers of others glide over the page, and go with whoever leaves', async () => {
    const one = await open('?room=g&user=ana&name=Ana')
    const two = await open('?room=g&user=bob&name=Bob')
    await one.locator('.name', { hasText: 'Bob' }).waitFor()
    for (let i = 0; i < 10; i++) await two.mouse.move(200 + i * 20, 300)
    const mark = one.locator('.cursor', { hasText: 'Bob' })
    await mark.waitFor()
    const box = await one.locator('.cursor i').first().boundingBox()
    await expect
      .poll(async () => Math.round((await one.locator('.cursor i').first().boundingBox())?.x ?? 0))
      .toBe(380)
    expect(box?.y).toBeGreaterThan(200)
    expect(await two.locator('.cursor').count()).toBe(0)
    await two.close()
    await mark.waitFor({ state: 'detached' })
    await one.close()
  })

  test('text of strangers is text', async () => {
    const evil = await open(`?room=d&user=evil&name=${encodeURIComponent('<img src=x onerror=alert(1)>')}`)
    expect(await names(evil)).toEqual(['<img src=x onerror=alert(1)>'])
    expect(await evil.locator('#people img').count()).toBe(0)
    await evil.close()
  })

  test('going to another room leaves the first', async () => {
    const page = await open('?room=e&user=ana&name=Ana')
    await page.fill('#goto', 'doc:42/ü')
    await page.click('#go button')
    await page.locator('h1', { hasText: 'doc:42/ü' }).waitFor()
    await expect.poll(() => fake.roster('doc:42/ü').length).toBe(1)
    expect(fake.roster('e')).toEqual([])
    await page.goBack()
    await page.locator('h1', { hasText: 'e' }).waitFor()
    await expect.poll(() => fake.roster('e').length).toBe(1)
    await page.close()
  })

  test('A41: back from the cache, the list is true and the tab is one connection', async () => {
    const page = await open('?room=f&user=ana&name=Ana')
    await page.goto(`${server.url}/icon.svg`)
    await expect.poll(() => fake.roster('f').length, { timeout: 3_000 }).toBe(0)
    const bob = await open('?room=f&user=bob&name=Bob')
    await page.goBack()
    await page.locator('#state[data-state=live]').waitFor()
    expect(await names(page)).toEqual(['Ana', 'Bob'])
    expect(fake.roster('f').find(({ user }) => user === 'ana')?.connections).toBe(1)
    await page.close()
    await bob.close()
  })
})
