// Runs a TypeScript file of the tests: `node scripts/run.js FILE [ARGUMENTS]`.
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'tsdown'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
// Inside node_modules, so that the result finds the packages that it leaves out.
const outDir = here('../node_modules/.cache/rollcall-run')
const [file] = process.argv.splice(2, 1)
process.env.ROLLCALL_PAGES = String(new URL('../../web/static/', import.meta.url))

await build({
  config: false,
  cwd: here('..'),
  entry: { main: here(`../${file}`) },
  outDir,
  format: 'esm',
  platform: 'node',
  external: [/^[\w@]/],
  dts: false,
  report: false,
  logLevel: 'error',
  outExtensions: () => ({ js: '.js' }),
})
await import(pathToFileURL(`${outDir}/main.js`).href)
