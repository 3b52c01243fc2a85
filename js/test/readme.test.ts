import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { expect, test } from 'vitest'

/* Every example of README.md is a program that the compiler takes, and so is ours of the guide
   that stands beside those of others. */

const root = fileURLToPath(new URL('..', import.meta.url))

/** What the examples take for granted. */
const prelude = `
import type { Client as C, Room as R } from '@rollcall/client'
declare global {
  const client: C
  const room: R
  const draw: (...what: unknown[]) => void
  const text: string
  const input: HTMLInputElement
  const props: { readonly id: string }
  const nameOf: typeof import('@rollcall/client').nameOf
  const drawAvatars: (names: readonly string[]) => void
  const drawCursors: (cursors: readonly { readonly x: number; readonly y: number }[]) => void
  const drawTyping: (users: readonly string[]) => void
}
`

function examples(): Map<string, string> {
  const files = new Map([[`${root}readme/prelude.d.ts`, prelude]])
  const text = readFileSync(`${root}README.md`, 'utf8')
  for (const { 1: kind, 2: code = '', index } of text.matchAll(/^```(tsx?)\n(.*?)^```/gms)) {
    const line = text.slice(0, index).split('\n').length + 1
    files.set(`${root}readme/line-${line}.${kind}`, `${code}\nexport {}\n`)
  }
  const guide = readFileSync(`${root}../docs/guides/side-by-side.md`, 'utf8')
  const ours = /^## Rollcall\n+```ts\n(.*?)^```/ms.exec(guide)?.[1]
  expect(ours).toBeDefined()
  files.set(`${root}readme/side-by-side.ts`, `${ours}\nexport {}\n`)
  return files
}

test('every example of the README compiles', { timeout: 300_000 }, () => {
  const files = examples()
  expect(files.size).toBeGreaterThan(8)
  const { config } = ts.readConfigFile(`${root}tsconfig.json`, ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  const all: ts.CompilerOptions = {
    ...options,
    jsx: ts.JsxEmit.ReactJSX,
    noUnusedLocals: false,
    noUnusedParameters: false,
    paths: { '@rollcall/client': [`${root}src/index.ts`], '@rollcall/client/*': [`${root}src/*.ts`] },
  }
  const host = ts.createCompilerHost(all)
  const { getSourceFile, fileExists, readFile } = host
  host.fileExists = (name) => files.has(name) || fileExists(name)
  host.readFile = (name) => files.get(name) ?? readFile(name)
  host.getSourceFile = (name, ...rest) => {
    const code = files.get(name)
    return code === undefined ? getSourceFile(name, ...rest) : ts.createSourceFile(name, code, rest[0])
  }
  const program = ts.createProgram([...files.keys()], all, host)
  const complaints = ts.getPreEmitDiagnostics(program).map(({ file, start = 0, messageText }) => {
    const line = file ? file.getLineAndCharacterOfPosition(start).line + 1 : 0
    return `${file?.fileName.split('/').at(-1)}:${line} ${ts.flattenDiagnosticMessageText(messageText, ' ')}`
  })
  expect(complaints).toEqual([])
})
