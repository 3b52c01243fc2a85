import type { FakeConnection, FakeServer } from './server.ts'
import { watch } from './watching.ts'

export interface RestAnswer {
  status: number
  body?: object
}

/** The calls of a connection over HTTP, each proved by its secret. */
export function rest(
  server: FakeServer,
  method: string,
  path: string[],
  body: Record<string, unknown>,
  secret: string,
): RestAnswer {
  const gone: RestAnswer = { status: 410, body: { code: 'gone', detail: 'unknown connection' } }
  const [kind, first, second, id, what, page] = path
  if (kind === 'connections') {
    const connection = server.connections.get(first ?? '')
    const proven = connection && connection.resume === body.resume
    if (second === 'release') {
      server.said.push({ connection: first ?? '', type: 'release', ...body })
      if (proven && body.closing === true) server.closing(connection)
      else if (proven) server.forget(connection, 'left')
      return { status: 204 }
    }
    server.said.push({ connection: first ?? '', type: second ?? '', ...body })
    if (second === 'users') return connection ? watched(server, connection, { ...body, type: 'users' }) : gone
    if (!proven && second === 'beat') return connection ? { status: 204 } : gone
    if (connection && second === 'beat') connection.evidenceAt = Date.now()
    return connection ? { status: 204 } : gone
  }
  if (kind !== 'rooms' || second !== 'connections') return { status: 404, body: { code: 'not_found' } }
  const room = first ?? ''
  const connection = server.connections.get(id ?? '')
  if (what === 'signals') {
    const list = (Array.isArray(body) ? body : [body]) as Record<string, unknown>[]
    for (const item of list) server.said.push({ connection: id ?? '', type: 'signal', room, ...item })
    if (!connection) return gone
    const fine = list.every((item) => server.signal(connection, room, item))
    return fine ? { status: 204 } : { status: 403, body: { code: 'forbidden' } }
  }
  if (what === 'contacts' || what === 'pages') {
    const type = what === 'contacts' ? 'contacts' : method === 'DELETE' ? 'closePage' : 'page'
    const message = { ...body, type, room, ...(page === undefined ? {} : { page }) }
    server.said.push({ connection: id ?? '', ...message })
    if (!connection) return gone
    return watched(server, connection, message)
  }
  server.said.push({ connection: id ?? '', type: method, room, ...body })
  if (method === 'DELETE') {
    if (connection) server.leave(connection, room)
    return { status: 204 }
  }
  if (!connection) return gone
  if (connection.resume !== secret) return { status: 403, body: { code: 'forbidden' } }
  connection.evidenceAt = Date.now()
  const member = method === 'PUT' ? server.join(connection, room, body) : server.set(connection, room, body)
  return { status: 200, body: { member } }
}

function watched(
  server: FakeServer,
  connection: FakeConnection,
  message: Record<string, unknown>,
): RestAnswer {
  const answer = watch(server, connection, message)
  if (answer === null) return { status: 404 }
  if ('fields' in answer) return { status: 200, body: answer.fields }
  const { code, message: detail } = answer.refusal
  return { status: code === 'rate_limited' ? 429 : 400, body: { code, detail } }
}

/** Enters the rooms of a stream, as its address says. */
export function enterStream(server: FakeServer, connectionId: string, url: URL): void {
  const connection = server.connections.get(connectionId)
  if (!connection) return
  const { searchParams } = url
  const single = /^\/v1\/rooms\/([^/]+)\/stream$/.exec(url.pathname)
  const rooms = single ? [decodeURIComponent(single[1] ?? '')] : searchParams.getAll('room')
  const [epoch, version] = (searchParams.get('since') ?? '').split('.')
  for (const room of rooms) {
    server.join(connection, room, {
      status: searchParams.get('status') ?? undefined,
      data: JSON.parse(searchParams.get('data') ?? '{}'),
      observe: searchParams.get('observe') === '1',
      since: version ? { epoch, version: Number(version) } : undefined,
    })
  }
}

export function formatEvent(frame: object): string {
  const { type, ...data } = frame as { type: string }
  return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`
}
