import { describe, expect, test } from 'vitest'
import { EventParser } from '../src/core/eventstream.ts'

function parse(...pieces: string[]): { events: string[]; id: string | null } {
  const events: string[] = []
  const parser = new EventParser(({ event, data }) => events.push(`${event}|${data}`))
  for (const piece of pieces) parser.push(piece)
  return { events, id: parser.lastEventId }
}

describe('event stream', () => {
  const text =
    '\ufeffretry: 200\n\n: hb\nevent: beat\ndata: {"n":1}\n\ndata:a\ndata: b\n\nid: 7\n\nevent: x\ndata\n\n'
  const expected = { events: ['beat|{"n":1}', 'message|a\nb', 'x|'], id: '7' }

  test('fields, comments, several data lines, an id alone', () => {
    expect(parse(text)).toEqual(expected)
  })

  test('in pieces of any size, with any line end', () => {
    for (const end of ['\n', '\r\n']) {
      const whole = text.replaceAll('\n', end)
      for (const size of [1, 2, 3, 7]) {
        const pieces = Array.from({ length: Math.ceil(whole.length / size) }, (_, i) =>
          whole.slice(i * size, i * size + size),
        )
        expect(parse(...pieces)).toEqual(expected)
      }
    }
    expect(parse(`${text.replaceAll('\n', '\r')}:`)).toEqual(expected)
  })

  test('an event without its blank line is no event; an id with NUL is ignored', () => {
    expect(parse('event: beat\ndata: 1\n').events).toEqual([])
    expect(parse('id: 1\n\nid: a\0b\n\n').id).toBe('1')
  })
})
