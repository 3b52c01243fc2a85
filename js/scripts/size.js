// Measures each entry of the package as an application would ship it, minified and compressed, and fails
// over the budget: `first` is what a page loads at once, `later` what is fetched when it is first used.
// `--markdown` prints the table of README.md.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'tsdown'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))

/** What is imported, and at most how many bytes of gzip. An adapter counts without what it adapts to. */
const entries = [
  ['core', { 'index.js': '{ createClient }' }, 8_192],
  ['positions', { 'positions.js': '*' }, 1_800],
  ['shared', { 'index.js': '{ createClient }', 'shared.js': '*' }, 12_400],
  ['cursors', { 'cursors.js': '*' }, 1_500],
  ['react', { 'index.js': '{ createClient }', 'react.js': '*' }, 11_700],
  ['vue', { 'index.js': '{ createClient }', 'vue.js': '*' }, 9_600],
  ['svelte', { 'index.js': '{ createClient }', 'svelte.js': '*' }, 9_400],
  ['solid', { 'index.js': '{ createClient }', 'solid.js': '*' }, 9_500],
]

const gzip = (chunk) => gzipSync(chunk.code, { level: 9 }).length
const format = new Intl.NumberFormat('en')

/** The chunks that come at once, and those that are fetched on use. */
function split(chunks) {
  const byName = new Map(chunks.map((chunk) => [chunk.fileName, chunk]))
  const first = new Set()
  const add = (chunk) => {
    if (chunk === undefined || first.has(chunk)) return
    first.add(chunk)
    for (const name of chunk.imports) add(byName.get(name))
  }
  add(chunks.find(({ isEntry }) => isEntry))
  return { first: [...first], later: chunks.filter((chunk) => !first.has(chunk)) }
}

const folder = mkdtempSync(join(tmpdir(), 'rollcall-size-'))
const dist = join(folder, 'dist')
await build({ cwd: here('..'), filter: 'code', outDir: dist, clean: false, logLevel: 'error' })
const rows = []
let over = 0
for (const [name, files, budget] of entries) {
  const entry = join(folder, `${name}.js`)
  const lines = Object.entries(files).map(([file, what]) => {
    return `export ${what} from ${JSON.stringify(join(dist, file))}\n`
  })
  writeFileSync(entry, lines.join(''))
  const [{ chunks }] = await build({
    config: false,
    cwd: here('..'),
    entry: { [name]: entry },
    outDir: folder,
    external: ['react', 'react/jsx-runtime', 'vue', 'svelte', 'solid-js'],
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    minify: true,
    dts: false,
    clean: false,
    report: false,
    write: false,
    logLevel: 'error',
    // As in the page of an application: what parts that come later need is exported by the first chunk itself.
    inputOptions: { preserveEntrySignatures: 'allow-extension' },
  })
  const { first, later } = split(chunks.filter(({ type }) => type === 'chunk'))
  const bytes = first.reduce((sum, chunk) => sum + gzip(chunk), 0)
  const minified = first.reduce((sum, chunk) => sum + chunk.code.length, 0)
  const fits = bytes > 0 && bytes <= budget
  if (!fits) over++
  const parts = later
    .filter(({ isDynamicEntry }) => isDynamicEntry)
    .map((chunk) => `${chunk.name} ${format.format(gzip(chunk))}`)
  rows.push({ name, minified, bytes, budget, fits, parts: parts.sort().join(', ') })
}
rmSync(folder, { recursive: true })

if (process.argv.includes('--markdown')) {
  console.log('| entry | minified | gzip | fetched when it is used |\n| --- | --: | --: | --- |')
  for (const { name, minified, bytes, parts } of rows) {
    console.log(`| \`${name}\` | ${format.format(minified)} | ${format.format(bytes)} | ${parts} |`)
  }
} else {
  console.log('entry       minified      gzip    budget  later')
  for (const { name, minified, bytes, budget, fits, parts } of rows) {
    const columns = [minified, bytes, budget].map((number) => String(number).padStart(10)).join('')
    console.log(`${name.padEnd(10)}${columns}  ${parts}${fits ? '' : '  over'}`)
  }
}
if (over > 0) {
  console.error(`size: error: ${over} of ${entries.length} entries are over their budget`)
  process.exit(1)
}
