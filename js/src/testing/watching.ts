import type { FakeConnection, FakeMember, FakeServer } from './server.ts'

/*
 * What a connection watches beside its rooms: pages, contacts, users. It belongs to the stream, and
 * changes are told at once.
 */

export interface FakePage {
  limit: number
  /** Members who joined before this one; null = from the newest. */
  before: number | null
  shown: FakeMember[]
}

export class Watching {
  /** By room, then page. */
  readonly pages = new Map<string, Map<string, FakePage>>()
  readonly contacts = new Map<string, Map<string, string | null>>()
  readonly users = new Map<string, string | null>()
}

export interface FakeRefusal {
  code: string
  message: string
}

const maxPages = 4
const maxUsers = 200

/** Answers `page`, `closePage`, `contacts` and `users`; null for what is none of them. */
export function watch(
  server: FakeServer,
  connection: FakeConnection,
  message: Record<string, unknown>,
): { fields: object } | { refusal: FakeRefusal } | null {
  const room = String(message.room)
  const { watching } = connection
  switch (message.type) {
    case 'page':
      return openPage(server, watching, room, message)
    case 'closePage':
      watching.pages.get(room)?.delete(String(message.page))
      return { fields: {} }
    case 'contacts': {
      const users = message.users as string[]
      if (users.length > maxUsers) return tooMany(`contacts: at most ${maxUsers}`)
      const here = server.room(room).members
      watching.contacts.set(room, new Map(users.map((user) => [user, textOf(here.get(user))])))
      return { fields: { present: users.flatMap((user) => here.get(user) ?? []) } }
    }
    case 'users': {
      const users = message.users as string[]
      if (users.length > maxUsers) return tooMany(`users: at most ${maxUsers}`)
      watching.users.clear()
      for (const user of users) watching.users.set(user, server.statusOf(user))
      const present = [...watching.users].filter(([, status]) => status !== null)
      return { fields: { present: present.map(([user, status]) => ({ user, status })) } }
    }
    default:
      return null
  }
}

/** Tells a connection what changed of what it watches, after a room changed. */
export function tellWatching(server: FakeServer, connection: FakeConnection, room: string): void {
  const { watching, port } = connection
  if (port === null) return
  for (const [id, page] of watching.pages.get(room) ?? []) {
    const frame = pageChange(server, room, id, page)
    if (frame !== null) port.send([frame])
  }
  const here = server.room(room).members
  const contacts = changes(watching.contacts.get(room), (user) => textOf(here.get(user)))
  if (contacts !== null) {
    const present = contacts.present.map((user) => here.get(user))
    port.send([{ type: 'contacts', room, present, absent: contacts.absent }])
  }
  const users = changes(watching.users, (user) => server.statusOf(user))
  if (users !== null) {
    const present = users.present.map((user) => ({ user, status: server.statusOf(user) }))
    port.send([{ type: 'users', present, absent: users.absent }])
  }
}

function openPage(
  server: FakeServer,
  watching: Watching,
  room: string,
  message: Record<string, unknown>,
): { fields: object } | { refusal: FakeRefusal } {
  const id = String(message.page)
  const pages = watching.pages.get(room) ?? new Map<string, FakePage>()
  let open = 0
  for (const of of watching.pages.values()) open += of.size
  if (!pages.has(id) && open >= maxPages) return tooMany(`pages: at most ${maxPages}`)
  const cursor = message.cursor as string | undefined
  const before = cursor === undefined ? null : Number(/^c(\d+)$/.exec(cursor)?.[1])
  if (Number.isNaN(before)) return { refusal: { code: 'bad_request', message: 'a cursor that is not ours' } }
  const page: FakePage = { limit: Number(message.limit), before, shown: [] }
  const { members, nextCursor } = window(server, room, page)
  page.shown = members
  watching.pages.set(room, pages.set(id, page))
  return { fields: { members, nextCursor, count: server.room(room).members.size } }
}

function window(server: FakeServer, room: string, page: FakePage) {
  const { members, order } = server.room(room)
  const list = [...members.values()]
    .map((member) => ({ member, at: order.get(member.user) ?? 0 }))
    .filter(({ at }) => page.before === null || at < page.before)
    .sort((a, b) => b.at - a.at)
  const shown = list.slice(0, page.limit)
  const last = shown.at(-1)
  const nextCursor = list.length > shown.length && last !== undefined ? `c${last.at}` : null
  return { members: shown.map(({ member }) => member), nextCursor }
}

function pageChange(server: FakeServer, room: string, id: string, page: FakePage): object | null {
  const { members, nextCursor } = window(server, room, page)
  const before = new Map(page.shown.map((member) => [member.user, member]))
  const after = new Map(members.map((member) => [member.user, member]))
  const join = members.filter(({ user, since }) => before.get(user)?.since !== since)
  const update = members.filter((member) => {
    const known = before.get(member.user)
    return known?.since === member.since && textOf(known) !== textOf(member)
  })
  const leave = page.shown
    .filter(({ user }) => !after.has(user))
    .map(({ user }) => ({ user, reason: 'left' }))
  page.shown = members
  if (join.length + update.length + leave.length === 0) return null
  const count = server.room(room).members.size
  return { type: 'page', room, page: id, join, update, leave, nextCursor, count }
}

/** Writes the newest state into `known` and tells whose is another. */
function changes(
  known: Map<string, string | null> | undefined,
  now: (user: string) => string | null,
): { present: string[]; absent: string[] } | null {
  const [present, absent]: [string[], string[]] = [[], []]
  for (const [user, before] of known ?? []) {
    const after = now(user)
    if (after === before) continue
    known?.set(user, after)
    if (after === null) absent.push(user)
    else present.push(user)
  }
  return present.length + absent.length > 0 ? { present, absent } : null
}

function textOf(member: FakeMember | undefined): string | null {
  return member === undefined ? null : JSON.stringify(member)
}

function tooMany(message: string): { refusal: FakeRefusal } {
  return { refusal: { code: 'rate_limited', message } }
}
