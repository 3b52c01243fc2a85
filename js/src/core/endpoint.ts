import { invalid } from './error.ts'

/** A guest of `rollcall dev`: who to be when there is no token. */
export interface Guest {
  readonly user: string
  readonly name?: string
}

export type Query = readonly (readonly [name: string, value: string])[]

/** Addresses of one server. Built by hand: the core knows no URL class. */
export class Endpoint {
  readonly #base: string

  constructor(url: string, origin: string | null) {
    let base = url.replace(/(\/v1)?\/*$/, '')
    if (base === '' || base.startsWith('/')) {
      if (origin === null) throw invalid('`url` must be absolute where there is no page to be relative to')
      base = origin.replace(/\/+$/, '') + base
    }
    base = base.replace(/^ws(s?):/i, 'http$1:')
    if (!/^https?:\/\/[^/]/i.test(base)) throw invalid(`\`url\` must be http(s) or ws(s), not ${url}`)
    this.#base = base
  }

  http(path: readonly string[], query: Query = []): string {
    return `${this.#base}/v1/${path.map(encodeURIComponent).join('/')}${format(query)}`
  }

  socket(path: readonly string[], query: Query = []): string {
    return this.http(path, query).replace(/^http/i, 'ws')
  }
}

export function guestQuery(guest: Guest | null): Query {
  if (guest === null) return []
  const { user, name } = guest
  return [['user', user], ...(name === undefined ? [] : [['name', name] as const])]
}

function format(query: Query): string {
  return query.map((pair, i) => `${i > 0 ? '&' : '?'}${pair.map(encodeURIComponent).join('=')}`).join('')
}
