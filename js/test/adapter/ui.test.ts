// @vitest-environment happy-dom
import { act, createElement as h, type ReactNode, StrictMode } from 'react'
import { createRoot, type Root } from 'react-dom/client'
import { renderToString } from 'react-dom/server'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { lingerMs } from '../../src/adapter/hold.ts'
import type { Client } from '../../src/core/client.ts'
import { RollcallProvider, RoomProvider } from '../../src/react.ts'
import { initialsOf } from '../../src/ui/avatars.ts'
import { AvatarStack, Cursors, MemberList, OnlineDot, TypingIndicator } from '../../src/ui.ts'
import { World } from '../fake/world.ts'

/* The building blocks as people meet them: what is read out, what keys do, what passes through. */
;(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true

let world: World
let client: Client
let box: HTMLElement
let root: Root
beforeEach(() => {
  world = new World()
  client = world.client('ana')
  box = document.createElement('div')
  document.body.append(box)
  root = createRoot(box)
})
afterEach(async () => {
  await act(async () => root.unmount())
  box.remove()
  await world.pass(lingerMs)
  expect(client.connection.get()).toBe('initial')
  expect(world.errors).toEqual([])
  world.end()
})

const pass = (ms = 0) => act(() => world.pass(ms))
const tree = (children: ReactNode) =>
  h(StrictMode, null, h(RollcallProvider, { client }, h(RoomProvider, { id: 'r' }, children)))
const show = (node: ReactNode) => act(async () => root.render(tree(node)))
const all = (selector: string) => [...box.querySelectorAll<HTMLElement>(selector)]
const one = (selector: string) => all(selector)[0] as HTMLElement

async function crowd(n: number) {
  for (let i = 1; i <= n; i++) world.client(`u${i}`).enter('r')
  await pass()
}

describe('AvatarStack', () => {
  test('reads out who is here, shows some, and says how many more', async () => {
    await show(h(AvatarStack, { max: 2, className: 'faces', style: { gap: 4 } }))
    await crowd(4)
    expect(one('ul').className).toBe('faces')
    expect(one('ul').style.gap).toBe('4px')
    expect(one('ul').getAttribute('aria-label')).toBe('5 people here')
    expect(all('li [role=img]').map((face) => face.getAttribute('aria-label'))).toEqual([
      'u1, active',
      'u2, active',
    ])
    expect(one('[data-more]').textContent).toBe('+2')
  })

  test('a picture comes from info, and everything can be drawn by oneself', async () => {
    await show(
      h(AvatarStack, {
        label: (n) => `${n} insan`,
        renderAvatar: ({ user }) => h('b', null, user),
        renderMore: (n) => `ve ${n}`,
        max: 1,
      }),
    )
    await crowd(2)
    expect(box.textContent).toBe('u1ve 1')
    expect(one('ul').getAttribute('aria-label')).toBe('3 insan')
    await show(h(AvatarStack))
    const connection = [...world.server.connections.values()].find(({ user }) => user === 'u1')
    if (connection) connection.info = { name: 'Uma Ito', avatar: 'https://app.test/u.png' }
    await act(async () => world.server.refresh('r', null))
    expect(one('img').getAttribute('alt')).toBe('Uma Ito, active')
    expect(one('img').getAttribute('src')).toBe('https://app.test/u.png')
  })

  test('in a crowd it shows some, and the true number', async () => {
    world.server.options.countsAbove = 3
    world.server.options.countsBelow = 2
    await show(h(AvatarStack, { max: 2 }))
    await crowd(6)
    await pass(1_000)
    expect(one('ul').getAttribute('aria-label')).toBe('7 people here')
    expect(all('li')).toHaveLength(3)
    expect(one('[data-more]').textContent).toBe('+4')
  })

  test.each([
    ['Ana', 'A'],
    ['ana maria ñu', 'AÑ'],
    ['👩‍👩‍👧 Zoë', '👩‍👩‍👧Z'],
    ['', ''],
  ])('initials of %j', (name, initials) => expect(initialsOf(name)).toBe(initials))
})

describe('Cursors', () => {
  test('lie over everything, take nothing, and are not read out', async () => {
    const bob = world.client('bob').enter('r')
    await show(h(Cursors, { className: 'layer', reducedMotion: true }))
    await pass()
    await act(async () => bob.signal('cursor', { x: 10, y: 20 }))
    await pass(200)
    const layer = one('.layer')
    expect(layer.getAttribute('aria-hidden')).toBe('true')
    expect(layer.style.pointerEvents).toBe('none')
    expect(one('[data-user=bob]').style.transform).toBe('translate(10px, 20px)')
    expect(one('[data-user=bob]').textContent).toContain('bob')
    const place = ({ x, y }: { x: number; y: number }) => ({ x: x * 2, y: y * 2 })
    await show(h(Cursors, { reducedMotion: true, place, renderCursor: (_, member) => `<${member?.user}>` }))
    await pass(200)
    await act(async () => bob.signal('cursor', { x: 11, y: 21 }))
    await pass(200)
    expect(one('[data-user=bob]').style.transform).toBe('translate(22px, 42px)')
    expect(one('[data-user=bob]').textContent).toBe('<bob>')
    await act(async () => bob.leave())
    await pass(100)
    expect(all('[data-user]')).toEqual([])
  })
})

describe('TypingIndicator', () => {
  test('is a polite live region that is there before it speaks', async () => {
    await show(h(TypingIndicator, { className: 'typing' }))
    expect(one('[role=status]').getAttribute('aria-live')).toBe('polite')
    expect(one('[role=status]').textContent).toBe('')
    const rooms = ['ben', 'cleo', 'dan', 'eve'].map((user) => world.client(user).enter('r'))
    const words = []
    for (const room of rooms) {
      await pass(100)
      await act(async () => room.typing())
      await pass(100)
      words.push(one('.typing').textContent)
    }
    expect(words).toEqual([
      'ben is typing…',
      'ben and cleo are typing…',
      'ben, cleo and dan are typing…',
      'ben, cleo and 2 others are typing…',
    ])
    await pass(5_000)
    expect(one('.typing').textContent).toBe('')
    expect(one('.typing').hasAttribute('data-typing')).toBe(false)
  })

  test('can be drawn, and is still read out', async () => {
    const ben = world.client('ben').enter('r')
    await show(
      h(TypingIndicator, {
        text: ([first]) => `${first?.user} yazıyor`,
        render: (list) => h('i', null, list.length),
      }),
    )
    await pass()
    await act(async () => ben.typing())
    await pass(100)
    expect(one('[role=status]').textContent).toBe('ben yazıyor')
    expect(one('i').parentElement?.getAttribute('aria-hidden')).toBe('true')
    expect(one('i').textContent).toBe('1')
  })
})

describe('OnlineDot', () => {
  test('has a name, follows the user, and many dots are one question', async () => {
    const users = ['ben', 'cleo', 'dan']
    await show(users.map((user) => h(OnlineDot, { key: user, user, className: 'dot' })))
    await pass(300)
    expect(all('.dot').map((dot) => dot.getAttribute('aria-label'))).toEqual([
      'offline',
      'offline',
      'offline',
    ])
    await act(async () => world.client('cleo').enter('far', { status: 'idle' }))
    await pass()
    expect(all('.dot').map((dot) => dot.dataset.status)).toEqual(['offline', 'idle', 'offline'])
    expect(world.server.said.filter(({ type }) => type === 'users')).toHaveLength(1)
    await show(h(OnlineDot, { user: 'cleo', label: (s) => `şu an ${s}`, render: (s) => s[0] }))
    await pass(300)
    expect(one('[role=img]').getAttribute('aria-label')).toBe('şu an idle')
    expect(one('[role=img]').textContent).toBe('i')
  })
})

describe('MemberList', () => {
  const scroll = (top: number) =>
    act(async () => {
      one('[tabindex]').scrollTop = top
      one('[tabindex]').dispatchEvent(new Event('scroll'))
    })
  const key = (name: string) =>
    act(async () => {
      one('[tabindex]').dispatchEvent(
        new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true }),
      )
    })
  const rows = (role: string) => all(`[role=${role}]`)

  test('only what is seen is in the document', async () => {
    await show(h(MemberList, { height: 200, rowHeight: 20, className: 'list', label: 'Who is here' }))
    await crowd(60)
    expect(one('.list').getAttribute('role')).toBe('list')
    expect(one('.list').getAttribute('aria-label')).toBe('Who is here')
    expect(rows('listitem').length).toBeLessThan(20)
    expect(rows('listitem')[0]?.getAttribute('aria-posinset')).toBe('1')
    expect(rows('listitem')[0]?.getAttribute('aria-setsize')).toBe('61')
    await scroll(1_000)
    expect(rows('listitem')[0]?.getAttribute('aria-posinset')).toBe('47')
    expect(rows('listitem').at(-1)?.getAttribute('aria-posinset')).toBe('61')
  })

  test('a large room opens pages while it is scrolled, and says who is not shown', async () => {
    Object.assign(world.server.options, { countsAbove: 20, countsBelow: 10 })
    await crowd(49)
    await show(h(MemberList, { height: 100, rowHeight: 20, limit: 10 }))
    await pass(500)
    const asked = () => world.server.said.filter(({ type }) => type === 'page')
    const before = asked().length
    expect(rows('listitem')[0]?.textContent).toContain('ana')
    expect(rows('listitem')[0]?.getAttribute('aria-setsize')).toBe('50')
    await pass(2_000)
    expect(asked()).toHaveLength(before)
    for (let i = 0; i < 10; i++) {
      await scroll(i * 100)
      await pass()
    }
    expect(asked().at(-1)?.limit).toBe(50)
    expect(rows('listitem').at(-1)?.getAttribute('aria-posinset')).toBe('50')
    expect(one('[data-more]')).toBeUndefined()
  })

  test('as a list box it has keys, and the chosen one stays chosen when others come', async () => {
    await crowd(29)
    const chosen: string[] = []
    await show(
      h(MemberList, {
        height: 100,
        rowHeight: 20,
        onSelect: ({ user }) => chosen.push(user),
        renderMember: ({ user }) => user,
      }),
    )
    await pass()
    const active = () => {
      const id = one('[role=listbox]').getAttribute('aria-activedescendant')
      return id === null ? null : document.getElementById(id)?.textContent
    }
    expect(active()).toBeNull()
    await key('ArrowDown')
    expect(active()).toBe('ana')
    await key('ArrowDown')
    await key('Enter')
    await key('End')
    expect(one('[role=listbox]').scrollTop).toBe(500)
    await key(' ')
    expect(chosen).toEqual(['u1', 'u29'])
    await key('PageUp')
    expect(active()).toBe('u25')
    await act(async () => world.client('aaa').enter('r'))
    await pass()
    expect(active()).toBe('u25')
    expect(rows('option').filter((row) => row.getAttribute('aria-selected') === 'true')).toHaveLength(1)
    await key('Home')
    await key('ArrowUp')
    expect(active()).toBe('aaa')
    await act(async () => rows('option')[2]?.click())
    expect(chosen.at(-1)).toBe('u1')
    await key('x')
    expect(chosen).toHaveLength(3)
  })
})

test('on a server all of it renders, and opens nothing', async () => {
  const page = [
    h(AvatarStack, { key: 1 }),
    h(Cursors, { key: 2 }),
    h(TypingIndicator, { key: 3 }),
    h(OnlineDot, { key: 4, user: 'ben' }),
    h(MemberList, { key: 5 }),
  ]
  expect(renderToString(tree(page))).toContain('0 people here')
  await pass()
  expect(world.opens).toEqual([])
})
