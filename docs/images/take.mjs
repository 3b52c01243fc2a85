// Takes the pictures of the README from the real page: `node docs/images/take.mjs [NAME...]`,
// after `npm ci` in js/. It starts `rollcall dev` by itself and needs Chromium
// (CHROMIUM=PATH if that is not /usr/bin/chromium).
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const { chromium } = createRequire(here('../../js/package.json'))('playwright-core')

const server = spawn(
  'go',
  ['run', './cmd/rollcall', 'dev', '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0'],
  { cwd: here('../..'), stdio: ['ignore', 'ignore', 'pipe'], detached: true },
)
const url = await new Promise((resolve, reject) => {
  let said = ''
  server.stderr.on('data', (text) => {
    said += text
    const found = /listening on (http:\S+)/.exec(said)
    if (found) resolve(found[1])
  })
  server.on('exit', () => reject(new Error(`no server came up: ${said}`)))
})

const browsers = []
async function newBrowser() {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  })
  browsers.push(browser)
  return browser
}

async function open(browser, room, name, viewport, colorScheme = 'light') {
  const context = await browser.newContext({ colorScheme, viewport })
  const page = await context.newPage()
  await page.goto(`${url}/?room=${room}&user=${name.toLowerCase()}&name=${encodeURIComponent(name)}`)
  // A server that has just started calls its memory fresh for one lease.
  await page.locator('#state[data-state=live]').waitFor({ timeout: 60_000 })
  await page.locator('.saved[data-state=saved]').waitFor()
  return page
}

const place = (page, from, to = from) =>
  page.evaluate(
    ([from, to]) => {
      const area = document.querySelector('.area')
      area.focus()
      area.setSelectionRange(from, to)
    },
    [from, to],
  )

/** Part of a page, with some air around it. */
async function picture(page, selector, name, air = 24) {
  await page.locator(selector).scrollIntoViewIfNeeded()
  const box = await page.locator(selector).boundingBox()
  const { x, y } = await page.evaluate(() => ({ x: scrollX, y: scrollY }))
  const left = Math.max(0, box.x + x - air)
  const top = Math.max(0, box.y + y - air)
  const clip = { x: left, y: top, width: box.width + 2 * air, height: box.height + 2 * air }
  await page.screenshot({ path: here(`${name}.png`), fullPage: true, clip })
}

const pictures = {
  /** Ben has two tabs and is listed once. */
  async 'two-tabs'() {
    const browser = await newBrowser()
    const size = { width: 720, height: 470 }
    await open(browser, 'doc:42', 'Ben', size)
    await open(browser, 'doc:42', 'Ben', size)
    const ana = await open(browser, 'doc:42', 'Ana', size)
    await ana.bringToFront()
    await ana.locator('.detail', { hasText: '2 tabs' }).waitFor()
    await ana.locator('#count', { hasText: '2' }).waitFor()
    await ana.waitForTimeout(1_500) // animations end
    await ana.screenshot({ path: here('two-tabs.png') })
  },

  /** Three write in one text: light for one of them, dark for another. */
  async 'one-text'() {
    const browser = await newBrowser()
    const size = { width: 860, height: 900 }
    const ana = await open(browser, 'doc:43', 'Ana', size)
    const dee = await open(browser, 'doc:43', 'Dee', size, 'dark')
    const ben = await open(browser, 'doc:43', 'Ben', size)
    const cem = await open(browser, 'doc:43', 'Cem', size)
    await place(cem, 66, 103)
    await place(ben, 19)
    await ana.locator('.bands i').first().waitFor({ state: 'attached' })
    await ben.keyboard.type(', all three of us')
    for (const page of [ana, dee]) await page.locator('.typing', { hasText: 'Ben' }).waitFor()
    await ana.waitForTimeout(300)
    await picture(ana, '#shared', 'one-text')
    await ben.keyboard.type(' ')
    await picture(dee, '#shared', 'one-text-dark')
  },

  /** A crash, and what everybody else saw. */
  async breaking() {
    const browser = await newBrowser()
    const page = await open(browser, 'doc:44', 'Ana', { width: 960, height: 900 })
    for (const name of ['come', 'reload', 'kill']) {
      await page.locator(`[data-break=${name}]:enabled`).click({ timeout: 15_000 })
      if (name === 'come') continue
      const verdict = page.locator('.verdict:is([data-state=held], [data-state=broken])')
      await verdict.waitFor({ timeout: 60_000 })
      console.error(`${name}: ${await verdict.textContent()}`)
    }
    await picture(page, '#breaking', 'breaking')
  },

  /** A thousand people. */
  async house() {
    const browser = await newBrowser()
    const page = await open(browser, 'keynote', 'Ana', { width: 960, height: 900 })
    await page.locator('[data-crowd="1"]').click()
    await page.locator('.pages', { hasText: 'are open' }).waitFor({ timeout: 30_000 })
    await page.locator('[data-star]').nth(1).click()
    await page.locator('[data-star]').nth(3).click()
    await page.locator('.mine li').nth(1).waitFor()
    await page.mouse.move(0, 0)
    await picture(page, '#house', 'house')
  },

  /** Two browsers; how the pointer of one moves in the other, picture by picture. */
  async path() {
    const [one, two] = [await newBrowser(), await newBrowser()]
    const size = { width: 420, height: 420 }
    const ana = await open(one, 'doc:45', 'Ana', size)
    const ben = await open(two, 'doc:45', 'Ben', size)
    await ana.locator('.name', { hasText: 'Ben' }).waitFor()
    await ana.waitForTimeout(1_000)
    const frames = []
    const session = await ana.context().newCDPSession(ana)
    session.on('Page.screencastFrame', ({ data, sessionId, metadata }) => {
      frames.push({ data, at: metadata.timestamp })
      void session.send('Page.screencastFrameAck', { sessionId })
    })
    await ben.mouse.move(60, 330)
    await ana.locator('.cursor', { hasText: 'Ben' }).waitFor()
    await session.send('Page.startScreencast', { format: 'png', everyNthFrame: 1 })
    const started = Date.now()
    const lasts = 1_500
    for (let share = 0; share < 1; ) {
      share = Math.min(1, (Date.now() - started) / lasts)
      await ben.mouse.move(60 + 270 * share, 330 - 240 * Math.sin(share * Math.PI * 0.55))
      await ben.waitForTimeout(16)
    }
    await ana.waitForTimeout(400)
    await session.send('Page.stopScreencast')
    const [first, last] = [frames[0].at, frames.at(-1).at]
    const shown = Array.from({ length: 6 }, (_, i) => {
      const at = first + ((last - first) * i) / 5
      return frames.reduce((best, frame) => (Math.abs(frame.at - at) < Math.abs(best.at - at) ? frame : best))
    })
    const strip = await (await one.newContext({ viewport: { width: 1260, height: 210 } })).newPage()
    await strip.setContent(
      `<body style="margin:0;display:flex;background:#faf9f6">${shown
        .map(({ data }) => `<img style="width:210px;outline:1px solid #e6e2da" src="data:image/png;base64,${data}">`)
        .join('')}</body>`,
    )
    await strip.screenshot({ path: here('path.png') })
    console.error(`path: ${frames.length} pictures in ${(last - first).toFixed(2)} s`)
  },
}

try {
  const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(pictures)
  for (const name of names) await pictures[name]()
} finally {
  for (const browser of browsers) await browser.close()
  process.kill(-server.pid)
}
