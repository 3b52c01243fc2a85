'use client'

import {
  type CSSProperties,
  createElement as h,
  type KeyboardEvent,
  type ReactElement,
  type ReactNode,
  useEffect,
  useId,
  useRef,
  useState,
} from 'react'
import { type Member, nameOf } from '../core/index.ts'
import { useCount, usePage, useRoom, useRoomMode, useStore } from '../react.ts'
import { Avatar, type LookProps } from './avatars.ts'

export interface MemberListProps extends LookProps {
  /** Of the visible part, in pixels. Default 320. */
  readonly height?: number
  /** Of each member, in pixels. Default 40. */
  readonly rowHeight?: number
  /** Members a page, in rooms that name nobody by themselves. Default 50. */
  readonly limit?: number
  readonly label?: string
  readonly renderMember?: (member: Member) => ReactNode
  /** The last line, where more are here than can be shown. */
  readonly renderMore?: (hidden: number) => ReactNode
  /** Enter, space or a click on a member. Makes the list a list box. */
  readonly onSelect?: (member: Member) => void
}

/**
 * Everyone in the room, of which only the visible part is in the document. In a large room it opens
 * pages while it is scrolled: up to 800 members are kept current, the rest is a number. As a list box it
 * has arrow keys, page up and down, home and end; it scrolls without motion.
 */
export function MemberList(props: MemberListProps): ReactElement {
  return useRoomMode() === 'counts' ? h(PagedList, props) : h(NamedList, props)
}

function NamedList(props: MemberListProps): ReactElement {
  const members = useStore(useRoom().members)
  return h(Rows, { ...props, members, count: members.length, loading: false, onEnd: nothing })
}

function PagedList(props: MemberListProps): ReactElement {
  const { members, nextCursor, count, loading, error, more } = usePage({ limit: props.limit ?? 50 })
  const known = useCount()
  const onEnd = nextCursor === null || error !== null ? nothing : more
  return h(Rows, { ...props, members, count: Math.max(count, known), loading, onEnd })
}

interface RowsProps extends MemberListProps {
  readonly members: readonly Member[]
  /** How many are here, shown or not. */
  readonly count: number
  readonly loading: boolean
  /** The end of what is known is near. */
  readonly onEnd: () => void
}

/** Rows above and below the visible ones. */
const overscan = 4

function Rows(props: RowsProps): ReactElement {
  const { members, count, loading, onEnd, onSelect, height = 320, rowHeight = 40 } = props
  const { renderMember = row, renderMore = moreLine } = props
  const box = useRef<HTMLDivElement>(null)
  const id = useId()
  const [top, setTop] = useState(0)
  const [active, setActive] = useState<string | null>(null)
  const hidden = Math.max(0, count - members.length)
  const lines = members.length + (hidden > 0 ? 1 : 0)
  const first = Math.max(0, Math.floor(top / rowHeight) - overscan)
  const last = Math.min(members.length, Math.ceil((top + height) / rowHeight) + overscan)
  const nearEnd = last >= members.length && hidden > 0 && !loading
  useEffect(() => {
    if (nearEnd) onEnd()
  }, [nearEnd, onEnd])

  const at = members.findIndex(({ user }) => user === active)
  const go = (index: number) => {
    const member = members[Math.max(0, Math.min(members.length - 1, index))]
    const element = box.current
    if (member === undefined || element === null) return
    setActive(member.user)
    const y = members.indexOf(member) * rowHeight
    const next = Math.min(y, Math.max(element.scrollTop, y + rowHeight - height))
    if (next === element.scrollTop) return
    element.scrollTop = next
    setTop(next)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const step = Math.max(1, Math.floor(height / rowHeight) - 1)
    const moves: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at === -1 ? 0 : at - 1,
      PageDown: at + step,
      PageUp: at - step,
      Home: 0,
      End: members.length - 1,
    }
    const to = moves[event.key]
    const chosen = members[at]
    if (to !== undefined) go(to)
    else if ((event.key === 'Enter' || event.key === ' ') && onSelect && chosen) onSelect(chosen)
    else return
    event.preventDefault()
  }
  const isBox = onSelect !== undefined
  const rows = members.slice(first, last).map((member, i) =>
    h(
      'div',
      {
        key: member.user,
        id: `${id}-${first + i}`,
        role: isBox ? 'option' : 'listitem',
        'aria-setsize': count,
        'aria-posinset': first + i + 1,
        'aria-selected': isBox ? member.user === active : undefined,
        'data-active': (isBox && member.user === active) || undefined,
        'data-status': member.status,
        style: place(first + i, rowHeight),
        onClick: () => {
          setActive(member.user)
          onSelect?.(member)
        },
      },
      renderMember(member),
    ),
  )
  return h(
    'div',
    {
      ref: box,
      className: props.className,
      style: { ...props.style, height, overflowY: 'auto', position: 'relative' },
      role: isBox ? 'listbox' : 'list',
      'aria-label': props.label ?? 'Members',
      'aria-busy': loading || undefined,
      'aria-activedescendant': isBox && at >= first && at < last ? `${id}-${at}` : undefined,
      tabIndex: 0,
      onKeyDown: isBox ? onKeyDown : undefined,
      onScroll: () => setTop(box.current?.scrollTop ?? 0),
    },
    h(
      'div',
      { role: 'presentation', style: { height: lines * rowHeight, position: 'relative' } },
      ...rows,
      hidden > 0
        ? h(
            'div',
            {
              key: ' more',
              'data-more': hidden,
              'aria-hidden': isBox || undefined,
              style: place(members.length, rowHeight),
            },
            renderMore(hidden),
          )
        : null,
    ),
  )
}

function place(index: number, height: number): CSSProperties {
  return { position: 'absolute', left: 0, right: 0, top: index * height, height }
}

function row(member: Member): ReactElement {
  return h('span', null, h(Avatar, { member }), ' ', h('span', { 'aria-hidden': true }, nameOf(member)))
}

function moreLine(hidden: number): string {
  return `and ${hidden} more`
}

function nothing(): void {}
