import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { build as bundle } from 'tsdown'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { url } from '../server.ts'
import { launch } from './chromium.ts'

/* The examples, built as their READMEs say, on the real server. */

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const examples = here('../../../examples/')
const types: Readonly<Record<string, string>> = { '.html': 'text/html', '.js': 'text/javascript' }

describe('the examples', { timeout: 60_000 }, () => {
  let browser: Awaited<ReturnType<typeof launch>>
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-examples-'))
  const complaints: string[] = []

  beforeAll(async () => {
    const common = {
      config: false as const,
      cwd: here('../..'),
      format: 'esm' as const,
      platform: 'browser' as const,
      target: 'es2022',
      dts: false,
      report: false,
      logLevel: 'error' as const,
      outExtensions: () => ({ js: '.js' }),
    }
    await bundle({
      ...common,
      entry: { index: here('../../src/index.ts') },
      outDir: join(folder, 'dist'),
      unbundle: true,
    })
    await bundle({
      ...common,
      entry: { main: join(examples, 'react/main.tsx') },
      alias: {
        '@rollcall/client/react': here('../../src/react.ts'),
        '@rollcall/client': here('../../src/index.ts'),
        'react-dom/client': here('../../node_modules/react-dom/client.js'),
        'react/jsx-runtime': here('../../node_modules/react/jsx-runtime.js'),
        react: here('../../node_modules/react/index.js'),
      },
      outDir: join(folder, 'react'),
      define: { 'process.env.NODE_ENV': '"development"' },
      deps: { alwaysBundle: [/./] },
    })
    browser = await launch()
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    rmSync(folder, { recursive: true, force: true })
    expect(complaints).toEqual([])
  })

  /** Opens a page of the examples as if the server were that of its files too. */
  async function open(path: string, files: (path: string) => string): Promise<Page> {
    const page = await browser.context.newPage()
    page.on('pageerror', (error) => complaints.push(String(error)))
    await page.route(/\/(examples|js)\//, async (route) => {
      const { pathname } = new URL(route.request().url())
      const file = files(pathname.endsWith('/') ? `${pathname}index.html` : pathname)
      await route.fulfill({
        body: readFileSync(file, 'utf8'),
        contentType: types[extname(file)] ?? 'text/plain',
      })
    })
    await page.goto(`${url}${path}`)
    return page
  }

  test('without a build: two pages see each other', async () => {
    const files = (path: string) =>
      path.startsWith('/js/dist/') ? join(folder, 'dist', path.slice(9)) : join(examples, path.slice(10))
    const server = encodeURIComponent(url)
    const ana = await open(`/examples/html/?name=Ana&server=${server}`, files)
    const ben = await open(`/examples/html/?name=Ben&server=${server}`, files)
    await ana.locator('#people li', { hasText: 'Ben' }).waitFor()
    await ana.locator('#count', { hasText: '2 here' }).waitFor()
    await ben.close()
    await ana.locator('#count', { hasText: '1 here' }).waitFor()
    await ana.close()
  })

  test('React, in strict mode: people, cursors, typing', async () => {
    const files = (path: string) =>
      path.endsWith('.html')
        ? join(examples, 'react/index.html')
        : join(folder, 'react', path.endsWith('main.tsx') ? 'main.js' : path.slice('/examples/react/'.length))
    const ana = await open('/examples/react/?name=Ana', files)
    const ben = await open('/examples/react/?name=Ben', files)
    await ana.locator('li', { hasText: 'Ben' }).waitFor()
    await ana.locator('p', { hasText: '2 here, connected' }).waitFor()
    await ben.mouse.move(200, 300)
    await ben.mouse.move(240, 320, { steps: 5 })
    await ana.locator('.cursor', { hasText: 'ben' }).waitFor()
    await ben.locator('input').pressSequentially('hi')
    await ana.locator('[role=status]', { hasText: 'Ben is typing' }).waitFor()
    await ben.close()
    await ana.locator('p', { hasText: '1 here' }).waitFor()
    expect(await ana.locator('.cursor').count()).toBe(0)
    await ana.close()
  })
})
