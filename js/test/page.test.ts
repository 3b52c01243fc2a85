// @vitest-environment happy-dom
import { describe, expect, test } from 'vitest'
import { fingerprint, hue, initials, tint } from '../../web/src/avatar.ts'
import { Notice } from '../../web/src/notice.ts'
import { readRoom, roomAddress } from '../../web/src/place.ts'

describe('avatars', () => {
  test.each([
    ['Ana Lindqvist', 'AL'],
    ['ana', 'A'],
    ['  émile   zola ', 'ÉZ'],
    ['👩‍🚀 Chidi', '👩‍🚀'],
    ['🇸🇪 Sven', '🇸🇪'],
    ['Mia 🦊', 'M🦊'],
    ['田中 さくら', '田さ'],
    ['ße', 'ß'],
    ['', '?'],
  ])('initials of %s', (name, expected) => {
    expect(initials(name)).toBe(expected)
  })

  test('the hue belongs to the id', () => {
    expect(hue('ana')).toBe(hue('ana'))
    expect(new Set(Array.from({ length: 200 }, (_, i) => hue(`u${i}`))).size).toBeGreaterThan(20)
    expect(fingerprint('')).toBeGreaterThanOrEqual(0)
    const hues = ['ana', 'ben', 'cem'].map(hue)
    expect(new Set(hues).size).toBe(3)
  })

  test.each([
    ['#1b7340', '#1b7340'],
    ['#FFF', '#FFF'],
    ['red', null],
    ['#12345', null],
    ['#000;background:url(x)', null],
    [7, null],
    [undefined, null],
  ])('the tint of %j', (color, expected) => {
    expect(tint({ color })).toBe(expected)
  })
})

describe('place', () => {
  test.each([
    ['', '', 'lobby'],
    ['?room=doc%3A42', '', 'doc:42'],
    ['?room=doc:42', '', 'doc:42'],
    ['?room=a', '#b%2Fc', 'b/c'],
    ['?room=..', '', 'lobby'],
    ['', '#100%', '100%'],
    [`?room=${'x'.repeat(300)}`, '', 'lobby'],
  ])('%s%s is %s', (search, hash, room) => {
    expect(readRoom({ search, hash })).toBe(room)
  })

  test('addresses keep the guest and drop a name that is not theirs', () => {
    expect(roomAddress({ search: '?user=ana&name=Ana' }, 'doc:42', null)).toBe(
      '?user=ana&name=Ana&room=doc:42',
    )
    expect(roomAddress({ search: '?user=ana&name=Ana' }, 'r', 'bob')).toBe('?user=bob&room=r')
  })
})

test('the notice gathers what happens at once and forgets who only passed by', async () => {
  const { vi } = await import('vitest')
  vi.useFakeTimers()
  const line = document.createElement('p')
  const notice = new Notice(line)
  const text = () => line.textContent?.replaceAll(/[\u2068\u2069]/g, '')
  for (const name of ['Ana', 'Bob', 'Cem', 'Dee']) notice.add(name, name, true)
  vi.advanceTimersByTime(200)
  expect(text()).toBe('Ana, Bob and 2 more joined')
  notice.add('Eve', 'Eve', true)
  notice.add('Ana', 'Ana', false)
  notice.add('Eve', 'Eve', false)
  expect(text()).toBe('Ana, Bob and 2 more joined')
  vi.advanceTimersByTime(2_600)
  expect(text()).toBe('Ana left')
  vi.advanceTimersByTime(30_000)
  expect(text()).toBe('')
  vi.useRealTimers()
})
