import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { url } from '../server.ts'
import { launch } from './chromium.ts'

/* The page at `/` against the real server, `rollcall dev`. */

describe('the page of rollcall dev', { timeout: 90_000 }, () => {
  let browser: Awaited<ReturnType<typeof launch>>
  const complaints: string[] = []
  let serial = 0
  const newRoom = () => `demo:${process.pid}-${++serial}`

  beforeAll(async () => {
    browser = await launch()
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    expect(complaints).toEqual([])
  })

  async function open(room: string, user: string, context = browser.context): Promise<Page> {
    const page = await context.newPage()
    page.on('pageerror', (error) => complaints.push(String(error)))
    page.on('console', (message) => {
      if (/Content.Security.Policy/i.test(message.text())) complaints.push(message.text())
    })
    const name = user.charAt(0).toUpperCase() + user.slice(1)
    await page.goto(`${url}/?room=${encodeURIComponent(room)}&user=${user}&name=${name}`)
    await page.locator('.saved[data-state=saved]').waitFor()
    return page
  }

  const textOf = (page: Page) => page.locator('.area').inputValue()

  async function place(page: Page, from: number, to = from): Promise<void> {
    await page.locator('.area').focus()
    await page.evaluate(
      ([from, to]) => (document.querySelector('.area') as HTMLTextAreaElement).setSelectionRange(from, to),
      [from, to] as const,
    )
  }

  /** Where a letter stands on the page, and where the caret of somebody is drawn. */
  async function drawn(page: Page, at: number): Promise<{ letter: number[]; caret: number[] }> {
    return page.evaluate((at) => {
      const node = document.querySelector('.mirror')?.firstChild as Text
      const range = document.createRange()
      range.setStart(node, at)
      range.setEnd(node, at)
      const [letter, caret] = [range.getBoundingClientRect(), document.querySelector('.caret') as HTMLElement]
      const { left, top } = (caret.parentElement as HTMLElement).getBoundingClientRect()
      const [x, y] = caret.style.translate.split(' ').map(Number.parseFloat)
      return {
        letter: [Math.round(letter.left), Math.round(letter.top)],
        caret: [Math.round(left + (x ?? 0)), Math.round(top + (y ?? 0))],
      }
    }, at)
  }

  test('two who type at once end up with the same text, and carets stay with their letters', async () => {
    const room = newRoom()
    const [ana, ben] = await Promise.all([open(room, 'ana'), open(room, 'ben')])
    await place(ana, 0)
    await place(ben, 20)
    await Promise.all([
      ana.keyboard.type('Ana writes here. ', { delay: 15 }),
      ben.keyboard.type(' BEN WRITES ', { delay: 20 }),
    ])
    await expect
      .poll(async () => (await textOf(ana)) === (await textOf(ben)), { timeout: 10_000, interval: 50 })
      .toBe(true)
    expect(await textOf(ana)).toMatch(/^Ana writes here\. Write here together.* BEN WRITES /s)
    // Ben's caret on Ana's page, and still there when she puts something in before it.
    const caretOf = () =>
      ben.evaluate(() => (document.querySelector('.area') as HTMLTextAreaElement).selectionStart)
    await ana.locator('.caret', { hasText: 'Ben' }).waitFor({ state: 'attached' })
    const before = await caretOf()
    await ana.keyboard.type('more, ')
    await expect.poll(caretOf, { timeout: 10_000 }).toBe(before + 6)
    const at = before + 6
    await expect
      .poll(async () => {
        const { letter, caret } = await drawn(ana, at)
        return Math.max(...letter.map((place, i) => Math.abs(place - (caret[i] ?? 0))))
      })
      .toBeLessThanOrEqual(1)
    await Promise.all([ana.close(), ben.close()])
  })

  test('who types is said and ends by itself; a selection is a band; both go with whoever leaves', async () => {
    const room = newRoom()
    const [ana, ben] = await Promise.all([open(room, 'ana'), open(room, 'ben')])
    await place(ben, 0)
    await ben.keyboard.type('x')
    await ana.locator('.typing', { hasText: 'Ben' }).waitFor()
    await place(ben, 1, 18)
    await ana.locator('.bands i').first().waitFor({ state: 'attached' })
    await ana.locator('.typing:not([data-on])').waitFor({ timeout: 15_000 })
    await ben.close()
    await ana.locator('.caret').waitFor({ state: 'detached' })
    expect(await ana.locator('.bands i').count()).toBe(0)
    await ana.close()
  })

  test('names of carets stay inside the text, at its edges too', async () => {
    const room = newRoom()
    const [ana, ben] = await Promise.all([open(room, 'ana'), open(room, 'maximilian-the-very-long-name')])
    await ana.setViewportSize({ width: 360, height: 700 })
    const length = (await textOf(ben)).length
    for (const at of [0, 12, 30, 60, 90, 120, length]) {
      await place(ben, at)
      await expect
        .poll(async () => {
          const { letter, caret } = await drawn(ana, at)
          return Math.max(...letter.map((place, i) => Math.abs(place - (caret[i] ?? 0))))
        })
        .toBeLessThanOrEqual(1)
      const inside = () =>
        ana.evaluate(() => {
          const [paper, label] = ['.paper', '.caret bdi'].map((name) =>
            (document.querySelector(name) as HTMLElement).getBoundingClientRect(),
          )
          if (paper === undefined || label === undefined) return false
          return label.left >= paper.left && label.right <= paper.right && label.top >= paper.top
        })
      await expect.poll(inside, { message: `at ${at}` }).toBe(true)
    }
    await Promise.all([ana.close(), ben.close()])
  })

  test('the name of a pointer stays on the page, at its right edge too', async () => {
    const room = newRoom()
    const [ana, ben] = await Promise.all([open(room, 'ana'), open(room, 'maximilian-the-very-long-name')])
    const { x, y, width } = (await ben.locator('main').boundingBox()) ?? { x: 0, y: 0, width: 0 }
    for (const at of [20, width / 2, width - 2]) {
      await ben.mouse.move(x + at, y + 40)
      const inside = () =>
        ana.evaluate((at) => {
          const [arrow, label, field] = ['.cursor i', '.cursor bdi', 'main'].map((name) =>
            document.querySelector(name)?.getBoundingClientRect(),
          )
          if (arrow === undefined || label === undefined || field === undefined) return false
          const there = Math.abs(arrow.left - field.left - at) < 2
          return there && label.left >= field.left && label.right <= field.right && label.width > 50
        }, at)
      await expect.poll(inside, { message: `at ${at}` }).toBe(true)
    }
    await Promise.all([ana.close(), ben.close()])
  })

  test('what is done to Robin keeps its promise: left, closed, reloaded, cut off, crashed', async () => {
    const page = await open(newRoom(), 'ana')
    const button = (name: string) => page.locator(`[data-break=${name}]:enabled`)
    for (const name of ['leave', 'close', 'reload', 'kill']) {
      if (await button('come').isVisible()) await button('come').click()
      await button(name).click({ timeout: 15_000 })
      const verdict = page.locator('.verdict:is([data-state=held], [data-state=broken])')
      await verdict.waitFor({ timeout: 35_000 })
      const told = (await page.locator('.seen').textContent()) ?? ''
      expect(await verdict.getAttribute('data-state'), told).toBe('held')
    }
    expect(await page.locator('.log li').last().textContent()).toContain('Robin left (expired)')
    await button('come').click()
    await page.getByRole('button', { name: 'Robin is here', disabled: true }).waitFor()
    expect(await page.locator('.verdict').getAttribute('data-state')).toBeNull()
    await page.close()
  })

  test('a full house: a number, pages that open on scrolling, and my people wherever they are', async () => {
    const page = await open(newRoom(), 'ana')
    const [bring, send] = [page.locator('[data-crowd="1"]'), page.locator('[data-crowd="0"]')]
    expect(await send.isDisabled()).toBe(true)
    await bring.click()
    const rows = page.locator('.members li')
    await expect.poll(() => rows.count(), { timeout: 30_000 }).toBe(50)
    await page.locator('#count', { hasText: /^(9\d\d|1,00[01]) people here/ }).waitFor()
    expect(await page.locator('#people .person').count()).toBeLessThanOrEqual(13)
    await page.locator('[data-crowd="0"]:enabled').waitFor()
    expect(await bring.isDisabled()).toBe(true)
    // Nobody is named, so nothing could be seen of Robin.
    expect(await page.locator('[data-break=come]').isDisabled()).toBe(true)
    await page.locator('.star').nth(2).click()
    await page.locator('.mine li').waitFor()
    await page.evaluate(() => {
      const list = document.querySelector('.members') as HTMLElement
      list.scrollTop = list.scrollHeight
    })
    await expect.poll(() => rows.count(), { timeout: 15_000 }).toBeGreaterThan(95)
    // They come and go, and change: the list follows without being asked.
    const before = await page.locator('.members').textContent()
    await expect
      .poll(async () => (await page.locator('.members').textContent()) !== before, { timeout: 15_000 })
      .toBe(true)
    await send.click()
    await page.locator('#count', { hasText: 'Only you' }).waitFor({ timeout: 15_000 })
    expect(await rows.count()).toBe(0)
    await page.locator('[data-crowd="1"]:enabled').waitFor()
    expect(await send.isDisabled()).toBe(true)
    expect(await page.locator('.pages').textContent()).toBe('')
    await page.close()
  })

  test('by keyboard: one stop for a list of stars, arrows inside, and nothing in focus that is not seen', async () => {
    const page = await open(newRoom(), 'ana')
    await page.locator('[data-crowd="1"]').focus()
    await page.keyboard.press('Enter')
    await page.locator('.star').nth(20).waitFor()
    await page.locator('[data-crowd="0"]:enabled').focus()
    const focused = () =>
      page.evaluate(() => {
        const node = document.activeElement as HTMLElement
        const [own, around] = [node, node.closest('.paper') ?? node].map((one) => getComputedStyle(one))
        const ring = own?.outlineStyle !== 'none' || around?.boxShadow !== 'none'
        const index = [...document.querySelectorAll('.star')].indexOf(node)
        return { index, ring, name: node.id || node.className || node.dataset.break }
      })
    await page.keyboard.press('Tab')
    const first = await focused()
    expect(first).toMatchObject({ name: 'star', ring: true })
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowDown')
    const third = await focused()
    // Newcomers may come in above, between two keys.
    expect(third.index).toBeGreaterThanOrEqual(2)
    await page.keyboard.press('Enter')
    await page.locator('.mine li').waitFor()
    const after: string[] = []
    for (let i = 0; i < 6; i++) {
      await page.keyboard.press('Tab')
      const { name, ring } = await focused()
      expect(ring, name).toBe(true)
      after.push(name ?? '')
    }
    expect(after).not.toContain('star')
    expect(after).toContain('goto')
    await page.close()
  })

  test('without scripts the page says what it needs, and where the list is all the same', async () => {
    const { context, close } = await launch({ javaScriptEnabled: false })
    const page = await context.newPage()
    await page.goto(url)
    await page.locator('.noscript', { hasText: 'needs JavaScript' }).waitFor()
    expect(await page.locator('main').isVisible()).toBe(false)
    await page.locator('.noscript a').click()
    expect(JSON.parse((await page.locator('body').textContent()) ?? '')).toHaveProperty('members')
    await close()
  })

  test('in forced colors an empty verdict is no bar, and a status is told by its shape', async () => {
    const page = await open(newRoom(), 'ana')
    await page.emulateMedia({ forcedColors: 'active' })
    const style = (selector: string, property: string) =>
      page.evaluate(
        ([selector, property]) =>
          getComputedStyle(document.querySelector(selector) as Element).getPropertyValue(property),
        [selector, property] as const,
      )
    expect(await style('.verdict', 'border-inline-start-style')).toBe('none')
    const shape = async (status: string) => {
      await page.evaluate((status) => {
        ;(document.querySelector('.person') as HTMLElement).dataset.status = status
      }, status)
      return `${await style('.dot', 'background-color')} ${await style('.dot', 'background-image')}`
    }
    expect(new Set([await shape('active'), await shape('idle'), await shape('away')]).size).toBe(3)
    await page.locator('.area').focus()
    expect(await style('.paper', 'outline-style')).toBe('solid')
    await page.close()
  })
})
