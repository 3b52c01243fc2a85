import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { url } from '../server.ts'
import { newBrowser } from './chromium.ts'

/*
 * The pictures of README.md, taken from the real page: what they show is what comes. Each run takes
 * them; `npm run pictures` keeps them in docs/images.
 */

const kept = process.env.ROLLCALL_PICTURES
const folder = kept ?? mkdtempSync(join(tmpdir(), 'rollcall-pictures-'))
const taken = new Set<string>()

interface Size {
  readonly width: number
  readonly height: number
}

describe('the pictures of the README', { timeout: 90_000 }, () => {
  let browser: Browser

  beforeAll(async () => {
    mkdirSync(folder, { recursive: true })
    browser = await newBrowser()
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    if (kept === undefined) rmSync(folder, { recursive: true })
  })

  test('two tabs: Ben has two, and is listed once', async () => {
    const size = { width: 720, height: 470 }
    await open('doc:42', 'Ben', size)
    await open('doc:42', 'Ben', size)
    const ana = await open('doc:42', 'Ana', size)
    await ana.bringToFront()
    await ana.locator('.detail', { hasText: '2 tabs' }).waitFor()
    await ana.locator('#count', { hasText: '2' }).waitFor()
    await stand(ana)
    await keep('two-tabs', (path) => ana.screenshot({ path }))
  })

  test('one text: three write in it, and one of them has it dark', async () => {
    const size = { width: 860, height: 900 }
    const ana = await open('doc:43', 'Ana', size)
    const dee = await open('doc:43', 'Dee', size, 'dark')
    const ben = await open('doc:43', 'Ben', size)
    const cem = await open('doc:43', 'Cem', size)
    await select(cem, 66, 103)
    await select(ben, 19)
    await ana.locator('.bands i').first().waitFor({ state: 'attached' })
    await ben.keyboard.type(', all three of us')
    for (const page of [ana, dee]) await page.locator('.typing', { hasText: 'Ben' }).waitFor()
    await keepPart('one-text', ana, '#shared')
    await ben.keyboard.type(' ')
    await dee.locator('.typing', { hasText: 'Ben' }).waitFor()
    await keepPart('one-text-dark', dee, '#shared')
  })

  test('breaking: a crash, and what everybody else saw', async () => {
    const page = await open('doc:44', 'Ana', { width: 960, height: 900 })
    for (const name of ['come', 'reload', 'kill']) {
      await page.locator(`[data-break=${name}]:enabled`).click({ timeout: 15_000 })
      if (name === 'come') continue
      await page.locator('.verdict[data-state=held]').waitFor({ timeout: 60_000 })
    }
    await keepPart('breaking', page, '#breaking')
  })

  test('house: a thousand people', async () => {
    const page = await open('keynote', 'Ana', { width: 960, height: 900 })
    await page.locator('[data-crowd="1"]').click()
    // All have come, and the first may have left again.
    await page.locator('.pages', { hasText: /of (1,00\d|9\d\d) are open/ }).waitFor({ timeout: 60_000 })
    await page.locator('[data-star]').nth(1).click()
    await page.locator('[data-star]').nth(3).click()
    await page.locator('.mine li').nth(1).waitFor()
    await page.mouse.move(0, 0)
    await keepPart('house', page, '#house')
  })

  test('path: how the pointer of one browser moves in another, picture by picture', async () => {
    const other = await newBrowser()
    const size = { width: 420, height: 420 }
    const ana = await open('doc:45', 'Ana', size)
    const ben = await open('doc:45', 'Ben', size, 'light', other)
    await ana.locator('.name', { hasText: 'Ben' }).waitFor()
    await stand(ana)
    const frames: { readonly data: string; readonly at: number }[] = []
    const session = await ana.context().newCDPSession(ana)
    session.on('Page.screencastFrame', ({ data, sessionId, metadata }) => {
      frames.push({ data, at: metadata.timestamp ?? 0 })
      void session.send('Page.screencastFrameAck', { sessionId })
    })
    await ben.mouse.move(60, 330)
    await ana.locator('.cursor', { hasText: 'Ben' }).waitFor()
    await session.send('Page.startScreencast', { format: 'png', everyNthFrame: 1 })
    const started = performance.now()
    for (let share = 0; share < 1; ) {
      share = Math.min(1, (performance.now() - started) / 1_500)
      await ben.mouse.move(60 + 270 * share, 330 - 240 * Math.sin(share * Math.PI * 0.55))
      await ben.waitForTimeout(16)
    }
    await ana.waitForTimeout(400)
    await session.send('Page.stopScreencast')
    await other.close()
    expect(frames.length).toBeGreaterThan(10)
    const [first, last] = [frames[0]?.at ?? 0, frames.at(-1)?.at ?? 0]
    const shown = Array.from({ length: 6 }, (_, i) => {
      const at = first + ((last - first) * i) / 5
      return frames.reduce((best, frame) => (Math.abs(frame.at - at) < Math.abs(best.at - at) ? frame : best))
    })
    const strip = await (await browser.newContext({ viewport: { width: 1_260, height: 210 } })).newPage()
    await strip.setContent(
      `<body style="margin:0;display:flex;background:#faf9f6">${shown
        .map(
          ({ data }) =>
            `<img style="width:210px;outline:1px solid #e6e2da" src="data:image/png;base64,${data}">`,
        )
        .join('')}</body>`,
    )
    await keep('path', (path) => strip.screenshot({ path }))
  })

  test('README.md shows these, and no others', () => {
    const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8')
    const shown = [...readme.matchAll(/docs\/images\/([\w-]+)\.png/g)].map(([, name]) => name)
    expect([...taken].sort()).toEqual([...new Set(shown)].sort())
  })

  async function open(
    room: string,
    name: string,
    viewport: Size,
    colorScheme: 'light' | 'dark' = 'light',
    where = browser,
  ): Promise<Page> {
    const page = await (await where.newContext({ colorScheme, viewport })).newPage()
    await page.goto(`${url}/?room=${room}&user=${name.toLowerCase()}&name=${encodeURIComponent(name)}`)
    // A server that has just started calls its memory fresh for one lease.
    await page.locator('#state[data-state=live]').waitFor({ timeout: 60_000 })
    await page.locator('.saved[data-state=saved]').waitFor()
    return page
  }

  async function select(page: Page, from: number, to = from): Promise<void> {
    await page.locator('.area').focus()
    await page.evaluate(
      ([from, to]) => (document.querySelector('.area') as HTMLTextAreaElement).setSelectionRange(from, to),
      [from, to] as const,
    )
  }

  /** Waits until what has an end has ended: who comes is faded in. */
  function stand(page: Page): Promise<unknown> {
    return page.waitForFunction(() =>
      document.getAnimations().every(({ playState, effect }) => {
        return playState !== 'running' || effect?.getComputedTiming().endTime === Number.POSITIVE_INFINITY
      }),
    )
  }

  async function keep(name: string, take: (path: string) => Promise<unknown>): Promise<void> {
    const path = join(folder, `${name}.png`)
    await take(path)
    // A page without anything to see is a few hundred bytes.
    expect(statSync(path).size).toBeGreaterThan(5_000)
    taken.add(name)
  }

  /** Part of a page, with some air around it. */
  async function keepPart(name: string, page: Page, selector: string): Promise<void> {
    const air = 24
    await stand(page)
    await page.locator(selector).scrollIntoViewIfNeeded()
    const box = await page.locator(selector).boundingBox()
    if (box === null) throw new Error(`${selector} is not to be seen`)
    const at = await page.evaluate(() => ({ x: scrollX, y: scrollY }))
    const x = Math.max(0, box.x + at.x - air)
    const y = Math.max(0, box.y + at.y - air)
    const clip = { x, y, width: box.width + 2 * air, height: box.height + 2 * air }
    await keep(name, (path) => page.screenshot({ path, fullPage: true, clip }))
  }
})
