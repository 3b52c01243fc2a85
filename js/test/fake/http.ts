import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type WebSocket, WebSocketServer } from 'ws'
import { enterStream, formatEvent, rest } from '../../src/testing/rest.ts'
import type { FakeConnection, FakeServer, Port } from '../../src/testing/server.ts'
import { takeMessage } from '../../src/testing/socket.ts'

/*
 * The fake server over real HTTP and WebSocket, with the pages: for a browser.
 */

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
}

export interface FakeHttpServer {
  readonly url: string
  /** Ends all streams without a word, and refuses new ones until `up`. */
  down(): void
  up(): void
  close(): Promise<void>
}

export async function serve(fake: FakeServer, pages: URL, port = 0): Promise<FakeHttpServer> {
  let refusing = false
  const server = createServer((request, response) => {
    void handle(fake, pages, request, response, refusing).catch(() => response.destroy())
  })
  const sockets = new WebSocketServer({ noServer: true, handleProtocols: () => 'rollcall.v1' })
  server.on('upgrade', (request, socket, head) => {
    if (refusing) socket.destroy()
    else
      sockets.handleUpgrade(request, socket, head, (webSocket) => attach(fake, webSocket, addressOf(request)))
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    down: () => {
      refusing = true
      for (const socket of sockets.clients) socket.terminate()
      server.closeAllConnections()
    },
    up: () => {
      refusing = false
    },
    close: () => close(server, sockets),
  }
}

function attach(fake: FakeServer, socket: WebSocket, url: URL): void {
  let connection: FakeConnection | null = null
  const port: Port = {
    send: (frames) => socket.send(JSON.stringify(frames.length === 1 ? frames[0] : frames)),
    end: (code, frame) => {
      if (frame) socket.send(JSON.stringify(frame))
      if (code === 1006) socket.terminate()
      else socket.close(code)
    },
    pongs: () => socket.readyState === socket.OPEN,
    opened: (opened) => {
      connection = opened
    },
  }
  socket.on('message', (data) => connection && takeMessage(fake, connection, String(data)))
  socket.on('close', (code) => connection && fake.gone(connection, port, code !== 1006))
  const { user, info } = who(url)
  fake.open(user, info, url.searchParams.get('resume'), port)
}

async function handle(
  fake: FakeServer,
  pages: URL,
  request: IncomingMessage,
  response: ServerResponse,
  refusing: boolean,
): Promise<void> {
  const url = addressOf(request)
  const path = url.pathname.split('/').slice(2).map(decodeURIComponent)
  if (!url.pathname.startsWith('/v1/')) return page(pages, url.pathname, response)
  if (refusing) {
    response.writeHead(503).end()
  } else if (path.at(-1) === 'stream') {
    stream(fake, url, response)
  } else {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : {}
    const secret = String(request.headers['rollcall-resume'] ?? '')
    const answer = rest(fake, request.method ?? 'GET', path, body, secret)
    response.writeHead(answer.status, { 'Content-Type': 'application/json' })
    response.end(answer.body ? JSON.stringify(answer.body) : undefined)
  }
}

function stream(fake: FakeServer, url: URL, response: ServerResponse): void {
  let connection: FakeConnection | null = null
  let id = 0
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store, no-transform' })
  const port: Port = {
    send: (frames) => response.write(`${frames.map(formatEvent).join('')}id: ${++id}\n\n`),
    end: (_code, frame) => {
      if (frame) response.write(formatEvent(frame))
      response.end()
    },
    pongs: () => false,
    opened: (opened) => {
      connection = opened
    },
  }
  response.on('close', () => connection && fake.gone(connection, port, true))
  const { user, info } = who(url)
  enterStream(fake, fake.open(user, info, url.searchParams.get('resume'), port).id, url)
}

async function page(pages: URL, path: string, response: ServerResponse): Promise<void> {
  const name = path === '/' ? 'index.html' : path.slice(1)
  if (!/^[\w-]+\.\w+$/.test(name)) return void response.writeHead(404).end()
  try {
    const file = await readFile(new URL(name, pages))
    response.writeHead(200, {
      'Content-Type': types[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream',
      'Content-Security-Policy': "default-src 'self'",
    })
    response.end(file)
  } catch {
    response.writeHead(404).end()
  }
}

function who(url: URL): { user: string; info: object } {
  const user = url.searchParams.get('user') ?? `guest-${Math.floor(Math.random() * 1e6)}`
  return { user, info: { name: url.searchParams.get('name') ?? user } }
}

function addressOf(request: IncomingMessage): URL {
  return new URL(request.url ?? '/', 'http://fake.test')
}

function close(server: Server, sockets: WebSocketServer): Promise<void> {
  for (const socket of sockets.clients) socket.terminate()
  server.closeAllConnections()
  return new Promise((resolve) => server.close(() => resolve()))
}
