import { createHmac } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { mintToken, RollcallError, RollcallServer, verifyWebhook } from '../src/server.ts'

/* What a back end uses. */

const now = 1_764_500_000_400
const open = (token: string) => {
  const [header, payload, signature] = token.split('.') as [string, string, string]
  const parse = (text: string) => JSON.parse(Buffer.from(text, 'base64url').toString())
  return { header: parse(header), payload: parse(payload), text: `${header}.${payload}`, signature }
}

describe('a token', () => {
  test('has the claims of the contract, and a signature that fits', () => {
    const token = mintToken(
      's3cret',
      {
        user: 'ana',
        info: { name: 'Ana Şahin' },
        rooms: { 'doc:*': ['presence', 'signal'], lobby: ['count'] },
        session: 's1',
        hidden: true,
        expiresInMs: 60_000,
      },
      { now, keyId: 'k1' },
    )
    const { header, payload, text, signature } = open(token)
    expect(header).toEqual({ alg: 'HS256', typ: 'JWT', kid: 'k1' })
    expect(payload).toEqual({
      sub: 'ana',
      iat: 1_764_500_000,
      exp: 1_764_500_061,
      info: { name: 'Ana Şahin' },
      rooms: { 'doc:*': ['presence', 'signal'], lobby: ['count'] },
      sid: 's1',
      hidden: true,
    })
    expect(signature).toBe(createHmac('sha256', 's3cret').update(text).digest('base64url'))
    expect(token).toMatch(/^[\w.-]+$/)
  })

  test('says no more than it was told, and is never made without a user or a secret', () => {
    expect(open(mintToken('s', { user: 'ana' }, { now })).payload).toEqual({
      sub: 'ana',
      iat: 1_764_500_000,
      exp: 1_764_500_601,
    })
    expect(() => mintToken('', { user: 'ana' })).toThrow('secret')
    expect(() => mintToken('s', { user: '' })).toThrow('user')
    expect(() => mintToken('s', { user: 'ana', expiresInMs: 0 })).toThrow('expiresInMs')
  })
})

describe('calls', () => {
  const calls: { url: string; method?: string; body?: unknown; key: string | null }[] = []
  const server = (status: number, body: unknown) =>
    new RollcallServer({
      url: 'http://presence.test/v1/',
      key: 'sk_x',
      fetch: async (url, init) => {
        const headers = new Headers(init?.headers)
        calls.push({
          url: String(url),
          ...(init?.method === undefined ? {} : { method: init.method }),
          ...(init?.body == null ? {} : { body: JSON.parse(String(init.body)) }),
          key: headers.get('Authorization'),
        })
        return new Response(status === 204 ? null : JSON.stringify(body), { status })
      },
    })

  test('name rooms and users as they are', async () => {
    await server(200, {}).room('doc/42 ü')
    await server(200, {}).members('r', { limit: 10, cursor: 'a+b' })
    await server(204, null).kick('a/b', '100%', { banMs: 5 })
    await server(204, null).disconnect('ana', { session: 's' })
    expect(calls).toEqual([
      { url: 'http://presence.test/v1/rooms/doc%2F42%20%C3%BC', method: 'GET', key: 'Bearer sk_x' },
      {
        url: 'http://presence.test/v1/rooms/r/members?limit=10&cursor=a%2Bb',
        method: 'GET',
        key: 'Bearer sk_x',
      },
      {
        url: 'http://presence.test/v1/rooms/a%2Fb/members/100%25/kick',
        method: 'POST',
        body: { banMs: 5 },
        key: 'Bearer sk_x',
      },
      {
        url: 'http://presence.test/v1/users/ana/disconnect',
        method: 'POST',
        body: { session: 's' },
        key: 'Bearer sk_x',
      },
    ])
  })

  test('answers and errors', async () => {
    expect(await server(200, { counts: { a: 1, __proto__: 2 } }).counts(['a'])).toEqual(new Map([['a', 1]]))
    expect(await server(404, { code: 'not_found' }).member('r', 'ana')).toBeNull()
    await expect(server(403, { code: 'forbidden', detail: 'no right' }).room('r')).rejects.toMatchObject({
      code: 'forbidden',
      retry: false,
      message: 'rollcall: no right',
    })
    await expect(server(502, 'oops').room('r')).rejects.toMatchObject({ code: 'http_502', retry: true })
    const gone = new RollcallServer({
      url: 'http://x.test',
      key: 'k',
      fetch: () => Promise.reject(new Error('no network')),
    })
    await expect(gone.user('ana')).rejects.toBeInstanceOf(RollcallError)
    await expect(gone.user('ana')).rejects.toMatchObject({ code: 'unreachable', retry: true })
  })

  test('all members, page by page', async () => {
    const pages = [
      { members: [{ user: 'a' }, { user: 'b' }], nextCursor: 'c1', count: 3 },
      { members: [{ user: 'c' }], nextCursor: null, count: 3 },
    ]
    const asked: string[] = []
    const server = new RollcallServer({
      url: 'http://x.test',
      key: 'k',
      fetch: async (url) => {
        asked.push(new URL(String(url)).search)
        return Response.json(pages[asked.length - 1])
      },
    })
    const users: string[] = []
    for await (const { user } of server.eachMember('r')) users.push(user)
    expect([users, asked]).toEqual([
      ['a', 'b', 'c'],
      ['?limit=200', '?limit=200&cursor=c1'],
    ])
  })
})

describe('the signature of a webhook', () => {
  const time = Math.floor(now / 1000)
  const body = '{"room":"doc:42","event":"occupied"}'
  const sign = (t: number | string, text: string | Uint8Array, secret = 'whsec') =>
    createHmac('sha256', secret).update(`${t}.`).update(text).digest('hex')
  const good = `t=${time},v1=${sign(time, body)}`

  test('fits what was signed, as text or bytes, and with a second secret', () => {
    expect(verifyWebhook('whsec', good, body, { now })).toBe(true)
    expect(verifyWebhook('whsec', good, new TextEncoder().encode(body), { now })).toBe(true)
    const rotated = `t=${time}, v1=${sign(time, body, 'old')}, v1=${sign(time, body)}`
    expect(verifyWebhook('whsec', rotated, body, { now })).toBe(true)
  })

  test.each([
    ['another body', good, `${body} `, now],
    ['another secret', `t=${time},v1=${sign(time, body, 'other')}`, body, now],
    ['another time than was signed', `t=${time + 1},v1=${sign(time, body)}`, body, now],
    ['too old', good, body, now + 301_000],
    ['too far ahead', good, body, now - 301_000],
    ['no signature', null, body, now],
    ['an empty one', '', body, now],
    ['no time', `v1=${sign('', body)}`, body, now],
    ['two times', `t=${time},t=${time},v1=${sign(time, body)}`, body, now],
    ['a time that is no number', `t=1e9,v1=${sign('1e9', body)}`, body, now],
    ['a short signature', `t=${time},v1=abcd`, body, now],
    ['another scheme', `t=${time},v0=${sign(time, body)}`, body, now],
  ])('does not fit: %s', (_, signature, text, at) => {
    expect(verifyWebhook('whsec', signature, text, { now: at })).toBe(false)
  })

  test('nothing fits an empty secret', () => {
    expect(verifyWebhook('', `t=${time},v1=${sign(time, body, '')}`, body, { now })).toBe(false)
  })
})
