import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import WebSocket from 'ws'
import { executablePath, newProfile } from './chromium.ts'

/*
 * A Chromium whose tabs are those of people: hidden behind each other, throttled, kept in the
 * back-forward cache. Playwright makes every tab believe that it is seen, and has no such cache.
 */

export interface PlainTab {
  /** The value of an expression, or of what it promises. */
  evaluate(expression: string): Promise<unknown>
  send(method: string, params?: object): Promise<Record<string, unknown>>
  /** In front of all others. */
  show(): Promise<void>
  close(): Promise<void>
}

export interface PlainBrowser {
  open(address: string, script?: string): Promise<PlainTab>
  close(): Promise<void>
}

/** `script` of `open` runs before those of each page of the tab. */
export async function launchPlain(...flags: string[]): Promise<PlainBrowser> {
  const profile = newProfile()
  const args = [
    '--headless=new',
    '--no-sandbox',
    '--disable-gpu',
    '--no-first-run',
    '--remote-debugging-port=0',
  ]
  // Processes of hidden tabs have less of the processor otherwise, and on a busy machine none.
  args.push('--disable-renderer-backgrounding')
  const process = spawn(
    executablePath,
    [...args, `--user-data-dir=${profile.path}`, ...flags, 'about:blank'],
    {
      stdio: 'ignore',
    },
  )
  const ended = new Promise<void>((resolve) => process.on('exit', () => resolve()))
  const devTools = await connect(join(profile.path, 'DevToolsActivePort'))
  return {
    open: async (address, script) => {
      const { targetId } = await devTools.send('Target.createTarget', { url: 'about:blank' })
      const { sessionId } = await devTools.send('Target.attachToTarget', { targetId, flatten: true })
      const send = (method: string, params: object = {}) => devTools.send(method, params, String(sessionId))
      await send('Page.enable')
      if (script !== undefined) await send('Page.addScriptToEvaluateOnNewDocument', { source: script })
      await send('Page.navigate', { url: address })
      return {
        send,
        evaluate: async (expression) => {
          const options = { expression, awaitPromise: true, returnByValue: true }
          const { result, exceptionDetails } = await send('Runtime.evaluate', options)
          if (exceptionDetails) throw new Error(`${expression}: ${JSON.stringify(exceptionDetails)}`)
          return (result as { value?: unknown }).value
        },
        show: async () => void (await devTools.send('Target.activateTarget', { targetId })),
        close: async () => void (await devTools.send('Target.closeTarget', { targetId })),
      }
    },
    close: async () => {
      await devTools.send('Browser.close')
      await ended
      profile.remove()
    },
  }
}

interface DevTools {
  send(method: string, params?: object, sessionId?: string): Promise<Record<string, unknown>>
}

/** The browser says in a file where it listens. */
async function connect(file: string): Promise<DevTools> {
  for (const started = Date.now(); !(existsSync(file) && readFileSync(file, 'utf8').includes('\n')); ) {
    if (Date.now() - started > 30_000) throw new Error('chromium does not start')
    await sleep(20)
  }
  const [port, path] = readFileSync(file, 'utf8').split('\n')
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`)
  await new Promise((resolve, reject) => socket.on('open', resolve).on('error', reject))
  const waiting = new Map<number, (answer: Answer) => void>()
  socket.on('message', (text) => {
    const answer: Answer = JSON.parse(String(text))
    waiting.get(answer.id)?.(answer)
    waiting.delete(answer.id)
  })
  let serial = 0
  return {
    send: (method, params = {}, sessionId = undefined) =>
      new Promise((resolve, reject) => {
        const id = ++serial
        waiting.set(id, ({ result, error }) =>
          error === undefined ? resolve(result ?? {}) : reject(new Error(`${method}: ${error.message}`)),
        )
        socket.send(JSON.stringify({ id, method, params, sessionId }))
      }),
  }
}

interface Answer {
  readonly id: number
  readonly result?: Record<string, unknown>
  readonly error?: { readonly message: string }
}
