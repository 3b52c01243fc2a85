'use client'

import { createElement as h, type ReactElement, type ReactNode } from 'react'
import type { Status } from '../core/index.ts'
import { useOnline } from '../react.ts'
import type { LookProps } from './avatars.ts'

export interface OnlineDotProps extends LookProps {
  readonly user: string
  /** Read out: `active`, `idle`, `away` or `offline`, in the words of the application. */
  readonly label?: (status: Status | 'offline') => string
  /** What is inside; nothing by default: `data-status` is there for the style. */
  readonly render?: (status: Status | 'offline') => ReactNode
}

/**
 * Whether a user is online in any room, for contact lists; needs a `RollcallProvider` alone. All dots
 * of a page are asked for as one list, of at most 200 users. Never by color alone: it has a name.
 */
export function OnlineDot(props: OnlineDotProps): ReactElement {
  const { user, className, style, label = (status) => status, render } = props
  const status = useOnline([user]).get(user) ?? 'offline'
  return h(
    'span',
    {
      className,
      style,
      role: 'img',
      'aria-label': label(status),
      title: label(status),
      'data-status': status,
    },
    render?.(status),
  )
}
