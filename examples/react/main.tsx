import { createClient } from '@rollcall/client'
import {
  RollcallProvider,
  RoomProvider,
  useCount,
  useCursors,
  useOthers,
  useSelf,
  useSignal,
  useStatus,
  useTyping,
} from '@rollcall/client/react'
import { type PointerEvent, StrictMode } from 'react'
import { createRoot } from 'react-dom/client'

// `rollcall dev` lets everybody in as a guest. With tokens: `auth: () => fetch('/token').then((r) => r.text())`.
const query = new URLSearchParams(location.search)
const name = query.get('name') ?? 'Ana'
const client = createClient({ guest: { user: query.get('user') ?? name.toLowerCase(), name } })

const nameOf = (info: { name?: unknown }, user: string) => (typeof info.name === 'string' ? info.name : user)

function People() {
  const self = useSelf()
  const others = useOthers()
  return (
    <ul aria-label="People">
      {self && <li>{nameOf(self.info, self.user)} (you)</li>}
      {others.map(({ user, info, status }) => (
        <li key={user} data-status={status}>
          {nameOf(info, user)}
        </li>
      ))}
    </ul>
  )
}

function Cursors() {
  return useCursors().map(({ connection, user, x, y, opacity }) => (
    <span key={connection} className="cursor" style={{ translate: `${x}px ${y}px`, opacity }}>
      ➤ {user}
    </span>
  ))
}

function Note() {
  const [typists, typing] = useTyping()
  const names = typists.map(({ user, info }) => nameOf(info, user)).join(', ')
  return (
    <label>
      Note
      <input onChange={() => typing()} onBlur={() => typing(false)} />
      <span role="status">{names && `${names} is typing…`}</span>
    </label>
  )
}

function Document() {
  const [, point] = useSignal('cursor')
  const move = ({ clientX, clientY }: PointerEvent) => point({ x: clientX, y: clientY })
  return (
    <main onPointerMove={move} onPointerLeave={() => point(null)}>
      <h1>Document 42</h1>
      <p>
        {useCount()} here, {useStatus()}
      </p>
      <People />
      <Note />
      <Cursors />
    </main>
  )
}

createRoot(document.querySelector('#app') as HTMLElement).render(
  <StrictMode>
    <RollcallProvider client={client}>
      <RoomProvider id="doc:42">
        <Document />
      </RoomProvider>
    </RollcallProvider>
  </StrictMode>,
)
