import { expect, test } from 'vitest'
import { newEndpoint } from '../src/core/endpoint.ts'

const page = 'https://page.test'

test.each([
  ['', page, 'https://page.test'],
  ['/', page, 'https://page.test'],
  ['/presence', page, 'https://page.test/presence'],
  ['/presence/v1/', page, 'https://page.test/presence'],
  ['https://presence.test', page, 'https://presence.test'],
  ['http://presence.test:8080/a/b/', null, 'http://presence.test:8080/a/b'],
  ['https://presence.test/v1', null, 'https://presence.test'],
  ['wss://presence.test//', null, 'https://presence.test'],
  ['WS://presence.test/v1/', null, 'http://presence.test'],
])('url %j on the page %s is %s', (url, origin, base) => {
  expect(newEndpoint(url, origin)([])).toBe(`${base}/v1/`)
})

test.each([
  ['', null],
  ['/presence', null],
  ['/presence', 'null'],
  ['presence.test', page],
  ['ftp://presence.test', page],
  ['https:///path', page],
  ['wsx://presence.test', null],
])('url %j on the page %s is refused', (url, origin) => {
  expect(() => newEndpoint(url, origin)).toThrow(`not "${url}"`)
})

test('names and values may have any character; what is undefined is left out', () => {
  const endpoint = newEndpoint('https://presence.test', null)
  expect(endpoint(['rooms', 'a/ü?', 'stream'], [])).toBe(
    'https://presence.test/v1/rooms/a%2F%C3%BC%3F/stream',
  )
  const query = [
    ['user', 'a&b'],
    ['name', ''],
    ['resume', undefined],
  ] as const
  expect(endpoint(['ws'], query)).toBe('https://presence.test/v1/ws?user=a%26b&name=')
})
