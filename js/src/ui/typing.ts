'use client'

import { createElement as h, type ReactElement, type ReactNode } from 'react'
import { type Member, nameOf } from '../core/index.ts'
import { useTyping } from '../react.ts'
import type { LookProps } from './avatars.ts'

export interface TypingIndicatorProps extends LookProps {
  /** The words, for another language or another number of names. */
  readonly text?: (typists: readonly Member[]) => string
  /** What to show; the words are still what is read out. */
  readonly render?: (typists: readonly Member[]) => ReactNode
}

/**
 * Who else is typing, in words, said politely to screen readers. The element is always there, empty
 * while nobody types: a live region must exist before it speaks.
 */
export function TypingIndicator(props: TypingIndicatorProps): ReactElement {
  const { className, style, text = typingText, render } = props
  const [typists] = useTyping()
  const words = typists.length === 0 ? '' : text(typists)
  const look = { className, style, 'data-typing': typists.length > 0 || undefined }
  if (render === undefined) return h('div', { ...look, role: 'status', 'aria-live': 'polite' }, words)
  return h(
    'div',
    look,
    h('span', { role: 'status', 'aria-live': 'polite', style: unseen }, words),
    h('span', { 'aria-hidden': true }, render(typists)),
  )
}

/** Read out, not shown. */
export const unseen = {
  position: 'absolute',
  width: 1,
  height: 1,
  overflow: 'hidden',
  clipPath: 'inset(50%)',
  whiteSpace: 'nowrap',
} as const

function typingText(typists: readonly Member[]): string {
  const names = typists.slice(0, typists.length > 3 ? 2 : 3).map(nameOf)
  const rest = typists.length - names.length
  const all = rest > 0 ? [...names, `${rest} others`] : names
  const list = all.length === 1 ? all[0] : `${all.slice(0, -1).join(', ')} and ${all.at(-1)}`
  return `${list} ${typists.length === 1 ? 'is' : 'are'} typing…`
}
