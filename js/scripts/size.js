// Measures each entry as an application would ship it, minified and compressed, and fails over the budget.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'tsdown'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))

/** What is imported, and at most how many bytes of gzip. An adapter counts without what it adapts to. */
const entries = [
  ['core', ['core/index.ts'], 13_000],
  ['browser', ['index.ts'], 13_500],
  ['positions', ['positions.ts'], 2_000],
  ['cursors', ['cursors.ts'], 2_500],
  ['react', ['index.ts', 'react.ts'], 17_000],
  ['vue', ['index.ts', 'vue.ts'], 15_000],
  ['svelte', ['index.ts', 'svelte.ts'], 15_000],
  ['solid', ['index.ts', 'solid.ts'], 15_000],
]

const folder = mkdtempSync(join(tmpdir(), 'rollcall-size-'))
let over = 0
console.log('entry       minified      gzip    budget')
for (const [name, files, budget] of entries) {
  const entry = join(folder, `${name}.ts`)
  writeFileSync(
    entry,
    files.map((file) => `export * from ${JSON.stringify(here(`../src/${file}`))}\n`).join(''),
  )
  const [{ chunks }] = await build({
    config: false,
    cwd: here('..'),
    entry: { [name]: entry },
    outDir: folder,
    external: ['react', 'vue', 'svelte', 'solid-js'],
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    minify: true,
    dts: false,
    clean: false,
    report: false,
    write: false,
    logLevel: 'error',
  })
  const code = chunks.map((chunk) => chunk.code ?? '').join('')
  const bytes = gzipSync(code, { level: 9 }).length
  const fits = bytes > 0 && bytes <= budget
  if (!fits) over++
  const columns = [code.length, bytes, budget].map((number) => String(number).padStart(10)).join('')
  console.log(`${name.padEnd(10)}${columns}${fits ? '' : '  over'}`)
}
rmSync(folder, { recursive: true })
if (over > 0) {
  console.error(`size: error: ${over} of ${entries.length} entries are over their budget`)
  process.exit(1)
}
