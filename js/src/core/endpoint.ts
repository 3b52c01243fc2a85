import { invalid } from './error.ts'

/** A guest of `rollcall dev`: who to be when there is no token. */
export interface Guest {
  readonly user: string
  readonly name?: string
}

/** What is undefined is left out. */
export type Query = readonly (readonly [name: string, value: string | undefined])[]

/** The address of a path of one server: http(s). */
export type Endpoint = (path: readonly string[], query?: Query) => string

/** Built by hand: the core knows no URL class. */
export function newEndpoint(url: string, origin: string | null): Endpoint {
  const absolute = url.replace(/^(?=\/|$)/, origin ?? '')
  const base = absolute.replace(/(\/v1)?\/*$/, '').replace(/^ws/i, 'http')
  if (!/^https?:\/\/[^/]/i.test(base)) {
    throw invalid(`\`url\` must be http(s) or ws(s), or a path where there is a page, not "${url}"`)
  }
  return (path, query = []) => {
    const pairs = query.flatMap(([name, value]) =>
      value === undefined ? [] : `${name}=${encodeURIComponent(value)}`,
    )
    const address = `${base}/v1/${path.map(encodeURIComponent).join('/')}`
    return pairs.length === 0 ? address : `${address}?${pairs.join('&')}`
  }
}
