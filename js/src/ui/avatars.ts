'use client'

import { type CSSProperties, createElement as h, type ReactElement, type ReactNode } from 'react'
import { type Member, nameOf } from '../core/index.ts'
import { useCount, useOthers, useRoom, useStore } from '../react.ts'

/** What every building block takes: it has no look of its own. */
export interface LookProps {
  readonly className?: string
  readonly style?: CSSProperties
}

export interface AvatarStackProps extends LookProps {
  /** How many faces before the number of the rest. Default 5. */
  readonly max?: number
  /** Read out in place of the whole; default "3 people here". */
  readonly label?: (count: number) => string
  readonly renderAvatar?: (member: Member) => ReactNode
  /** The rest: how many are here and not shown, ourselves not counted. */
  readonly renderMore?: (hidden: number) => ReactNode
}

/**
 * Who else is here, as faces: `info.avatar` as a picture, else initials. A list for screen readers,
 * each with its name and status. In a room that names only some it shows those, and the true number.
 */
export function AvatarStack(props: AvatarStackProps): ReactElement {
  const { max = 5, label = peopleHere, renderAvatar = avatar, renderMore = more } = props
  const others = useOthers()
  const room = useRoom()
  const sample = useStore(room.sample)
  const self = useStore(room.self)
  const count = useCount()
  const known = others.length > 0 ? others : sample.filter(({ user }) => user !== self?.user)
  const shown = known.slice(0, max)
  const hidden = Math.max(0, count - (self === null ? 0 : 1) - shown.length)
  return h(
    'ul',
    { className: props.className, style: { ...plainList, ...props.style }, 'aria-label': label(count) },
    ...shown.map((member) =>
      h('li', { key: member.user, 'data-status': member.status }, renderAvatar(member)),
    ),
    hidden > 0 ? h('li', { key: ' more', 'data-more': hidden }, renderMore(hidden)) : null,
  )
}

/** The face of a member: a picture where `info.avatar` names one, else initials. */
export function Avatar(props: LookProps & { readonly member: Member }): ReactElement {
  const { member, className, style } = props
  const label = `${nameOf(member)}, ${member.status}`
  const picture = member.info.avatar
  const common = { className, style, title: nameOf(member), 'data-status': member.status }
  if (typeof picture === 'string' && picture !== '') {
    return h('img', { ...common, src: picture, alt: label, draggable: false })
  }
  return h('span', { ...common, role: 'img', 'aria-label': label }, initialsOf(nameOf(member)))
}

export const plainList: CSSProperties = { listStyle: 'none', margin: 0, padding: 0 }

/** First letters of the first and the last word; whole characters, so that emoji stay whole. */
export function initialsOf(name: string): string {
  const words = name.trim().split(/\s+/)
  const firsts = [words[0], words.length > 1 ? words.at(-1) : ''].map((word) => graphemeOf(word ?? ''))
  return firsts.join('').toLocaleUpperCase()
}

function graphemeOf(word: string): string {
  if (typeof Intl.Segmenter !== 'function') return [...word][0] ?? ''
  for (const { segment } of new Intl.Segmenter().segment(word)) return segment
  return ''
}

function avatar(member: Member): ReactElement {
  return h(Avatar, { member })
}

function more(hidden: number): ReactElement {
  return h('span', { 'aria-label': `and ${hidden} more` }, `+${hidden}`)
}

function peopleHere(count: number): string {
  return `${count} ${count === 1 ? 'person' : 'people'} here`
}
