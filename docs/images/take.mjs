// Takes the picture in the README from the real page: `node docs/images/take.mjs`,
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
try {
  const context = await browser.newContext({ colorScheme: 'light', viewport: { width: 720, height: 470 } })
  const open = async (user, name) => {
    const page = await context.newPage()
    await page.goto(`${url}/?room=doc:42&user=${user}&name=${encodeURIComponent(name)}`)
    // A server that has just started calls its memory fresh for one lease.
    await page.locator('#state[data-state=live]').waitFor({ timeout: 45_000 })
    return page
  }
  // Ben has two tabs, and Ana looks at them.
  await open('u2', 'Ben')
  await open('u2', 'Ben')
  const ana = await open('ana', 'Ana')
  await ana.bringToFront()
  await ana.locator('#count', { hasText: '2' }).waitFor()
  await ana.waitForTimeout(2_500) // the second tab shows within a second; animations end
  await ana.screenshot({ path: here('two-tabs.png') })
} finally {
  await browser.close()
  process.kill(-server.pid)
}
