import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, type BrowserContext, chromium } from 'playwright-core'

export const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium'

/** A fresh profile for a browser that is there. */
export function newProfile(): { path: string; remove(): void } {
  if (!existsSync(executablePath)) throw new Error('chromium is missing: run script/setup, or install it')
  const path = mkdtempSync(join(tmpdir(), 'rollcall-chromium-'))
  // A browser that ends may still write.
  return { path, remove: () => rmSync(path, { recursive: true, force: true, maxRetries: 10 }) }
}

const args = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** A browser for contexts of their own, which remember nothing. */
export function newBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath, args })
}

/** A browser with a fresh profile; `close` removes it. */
export async function launch(
  options: object = {},
): Promise<{ context: BrowserContext; close(): Promise<void> }> {
  const profile = newProfile()
  const context = await chromium.launchPersistentContext(profile.path, {
    executablePath,
    headless: true,
    args,
    ...options,
  })
  return {
    context,
    close: async () => {
      await context.close()
      profile.remove()
    },
  }
}
