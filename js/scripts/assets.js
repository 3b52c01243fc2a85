// Builds the script of the pages in ../web/static. `--check` builds it elsewhere and fails if the
// committed file is another: Go embeds what is committed and runs no build of its own.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'tsdown'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const target = here('../../web/static')
const check = process.argv.includes('--check')
const outDir = check ? mkdtempSync(join(tmpdir(), 'rollcall-assets-')) : target

await build({
  config: false,
  cwd: here('..'),
  entry: { app: here('../../web/src/app.ts') },
  alias: {
    '@rollcall/client/cursors': here('../src/cursors.ts'),
    '@rollcall/client/positions': here('../src/positions.ts'),
    '@rollcall/client': here('../src/index.ts'),
  },
  outDir,
  format: 'esm',
  platform: 'browser',
  target: 'es2022',
  minify: true,
  sourcemap: false,
  dts: false,
  clean: false,
  report: false,
  logLevel: 'warn',
  // One file: what is fetched later elsewhere is here at once.
  outputOptions: { codeSplitting: false },
  outExtensions: () => ({ js: '.js' }),
})

if (check) {
  const same = readFileSync(join(outDir, 'app.js')).equals(readFileSync(join(target, 'app.js')))
  rmSync(outDir, { recursive: true })
  if (!same) {
    console.error('check:assets: error: web/static/app.js is not what web/src builds')
    console.error('check:assets: hint: run `npm run build:assets` and commit the result')
    process.exit(1)
  }
}
