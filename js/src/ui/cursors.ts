'use client'

import { type CSSProperties, createElement as h, type ReactElement, type ReactNode } from 'react'
import { type Member, nameOf } from '../core/index.ts'
import type { Cursor, CursorOptions } from '../cursors.ts'
import { useCursors, useOthers } from '../react.ts'
import type { LookProps } from './avatars.ts'

export interface CursorsProps extends LookProps, CursorOptions {
  /** What to draw at a position; the default is a small arrow with the name. */
  readonly renderCursor?: (cursor: Cursor, member: Member | null) => ReactNode
  /** From what the sender signalled to pixels of this element. */
  readonly place?: (cursor: Cursor) => { readonly x: number; readonly y: number }
}

/**
 * The cursors of others over the element it is in, which needs `position: relative`. It takes no
 * pointer and is hidden from screen readers: who is here is said elsewhere. With
 * `prefers-reduced-motion` nothing glides.
 */
export function Cursors(props: CursorsProps): ReactElement {
  const { className, style, renderCursor = arrow, place = (cursor) => cursor, ...options } = props
  const cursors = useCursors(options)
  const others = useOthers()
  return h(
    'div',
    { className, style: { ...layer, ...style }, 'aria-hidden': true },
    ...cursors.map((cursor) => {
      const { x, y } = place(cursor)
      const member = others.find(({ user }) => user === cursor.user) ?? null
      const at: CSSProperties = {
        position: 'absolute',
        left: 0,
        top: 0,
        transform: `translate(${x}px, ${y}px)`,
        opacity: cursor.opacity,
      }
      return h(
        'div',
        { key: cursor.connection, style: at, 'data-user': cursor.user },
        renderCursor(cursor, member),
      )
    }),
  )
}

const layer: CSSProperties = { position: 'absolute', inset: 0, overflow: 'hidden', pointerEvents: 'none' }

function arrow(cursor: Cursor, member: Member | null): ReactElement {
  const color = typeof member?.info.color === 'string' ? member.info.color : 'currentColor'
  return h(
    'span',
    { style: { color, whiteSpace: 'nowrap' } },
    h(
      'svg',
      { width: 12, height: 16, viewBox: '0 0 12 16', 'aria-hidden': true },
      h('path', { d: 'M0 0l12 10H6l-3 6z', fill: 'currentColor' }),
    ),
    ' ',
    member === null ? cursor.user : nameOf(member),
  )
}
