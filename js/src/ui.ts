'use client'

/*
 * Building blocks for React: right for screen readers and keyboards, and with no look of their own.
 * Each passes `className` and `style` on, and what it shows can be replaced.
 */

export { Avatar, AvatarStack, type AvatarStackProps, type LookProps } from './ui/avatars.ts'
export { Cursors, type CursorsProps } from './ui/cursors.ts'
export { OnlineDot, type OnlineDotProps } from './ui/dot.ts'
export { MemberList, type MemberListProps } from './ui/list.ts'
export { TypingIndicator, type TypingIndicatorProps } from './ui/typing.ts'
