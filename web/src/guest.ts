import { fingerprint } from './avatar.ts'

/** Who this tab is. Two tabs of one browser are one guest, unless the address says otherwise. */
export interface GuestIdentity {
  readonly user: string
  readonly name: string
}

const userKey = 'rollcall.user'
const nameKey = (user: string) => `rollcall.name.${user}`

const moods = ['Quiet', 'Brisk', 'Amber', 'Gentle', 'Lucky', 'Nimble', 'Sunny', 'Clever', 'Mellow', 'Early']
const animals = [
  'Otter',
  'Heron',
  'Lynx',
  'Finch',
  'Badger',
  'Marten',
  'Curlew',
  'Hare',
  'Wren',
  'Seal',
  'Ibex',
]

/** `?user=` names a guest of this tab alone; else the browser remembers one. */
export function readGuest(query: URLSearchParams): GuestIdentity {
  const user = query.get('user') || recall(userKey) || remember(userKey, newUser())
  const name = recall(nameKey(user)) || query.get('name') || nameFor(user)
  return { user, name: cleanName(name) || user }
}

export function rename(user: string, name: string): GuestIdentity {
  return { user, name: remember(nameKey(user), cleanName(name)) }
}

/** Calls `fn` when another tab renames this guest. */
export function onRenamedElsewhere(user: string, fn: (name: string) => void): void {
  addEventListener('storage', ({ key, newValue }) => {
    if (key === nameKey(user) && newValue) fn(cleanName(newValue))
  })
}

export function newUser(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(5))
  return `guest-${[...bytes].map((byte) => (byte % 36).toString(36)).join('')}`
}

export function cleanName(name: string): string {
  return name.replace(/\s+/gu, ' ').trim().slice(0, 60).toWellFormed()
}

/** The same friendly name for the same id, in every tab. */
function nameFor(user: string): string {
  const hash = fingerprint(user)
  return `${moods[hash % moods.length]} ${animals[(hash >>> 8) % animals.length]}`
}

// Storage may be refused (private windows, blocked cookies): then each tab is a guest of its own.
function recall(key: string): string | null {
  try {
    return localStorage.getItem(key)
  } catch {
    return null
  }
}

function remember(key: string, value: string): string {
  try {
    localStorage.setItem(key, value)
  } catch {
    // Nothing depends on it.
  }
  return value
}
