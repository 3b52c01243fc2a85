// Runs the fake server of the tests with the pages, for work on their design.
import { mkdirSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'tsdown'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const outDir = here('../node_modules/.cache/rollcall-dev')
mkdirSync(outDir, { recursive: true })
process.env.ROLLCALL_PAGES = String(new URL('../../web/static/', import.meta.url))

await build({
  config: false,
  cwd: here('..'),
  entry: { dev: here('../test/fake/dev.ts') },
  outDir,
  format: 'esm',
  platform: 'node',
  dts: false,
  report: false,
  logLevel: 'warn',
  outExtensions: () => ({ js: '.js' }),
})
await import(pathToFileURL(`${outDir}/dev.js`).href)
