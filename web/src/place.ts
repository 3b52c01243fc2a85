const byteLength = (text: string) => new TextEncoder().encode(text).length

/** The room of an address: `?room=doc:42`, or `#doc:42`, or the lobby. */
export function readRoom({ search, hash }: { readonly search: string; readonly hash: string }): string {
  const asked = decode(hash.slice(1)) || new URLSearchParams(search).get('room') || ''
  const room = asked.toWellFormed()
  const possible = room !== '' && room !== '.' && room !== '..' && byteLength(room) <= 256
  return possible ? room : 'lobby'
}

/** The same page in another room, and, if given, as another guest. */
export function roomAddress(
  { search }: { readonly search: string },
  room: string,
  user: string | null,
): string {
  const query = new URLSearchParams(search)
  query.set('room', room)
  if (user !== null) {
    query.set('user', user)
    query.delete('name')
  }
  // A colon is fine in a query, and `doc:42` is nicer to read than `doc%3A42`.
  return `?${query.toString().replaceAll('%3A', ':')}`
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
