const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' })

/** One or two letters of a name, or its emoji whole: what a reader sees as one character stays one. */
export function initials(name: string): string {
  const words = name.split(/\s+/u).filter((word) => word !== '')
  const first = words[0]
  if (first === undefined) return '?'
  const one = firstGrapheme(first)
  const last = words.length > 1 ? words.at(-1) : undefined
  // Next to an emoji a letter only makes both small.
  if (last === undefined || /\p{Extended_Pictographic}|\p{Regional_Indicator}/u.test(one)) return upper(one)
  return upper(one) + upper(firstGrapheme(last))
}

/** A hue that belongs to the user id, so that a new name keeps its colour. */
export function hue(user: string): number {
  return ((fingerprint(user) >>> 3) % 24) * 15
}

/** The colour that the server gave, if it is one. */
export function tint(info: { readonly color?: unknown }): string | null {
  const { color } = info
  return typeof color === 'string' && /^#(?:[\da-f]{3}|[\da-f]{6})$/i.test(color) ? color : null
}

/** FNV-1a: small, stable, and spread well enough for colours and names. */
export function fingerprint(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  // One more stir: without it the low bits of ids that differ in one letter fall together.
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
  return (hash ^ (hash >>> 13)) >>> 0
}

function firstGrapheme(word: string): string {
  for (const { segment } of graphemes.segment(word)) return segment
  return ''
}

// Only where it stays one character: the capital of ß is two.
function upper(grapheme: string): string {
  const capital = grapheme.toLocaleUpperCase()
  return [...capital].length === [...grapheme].length ? capital : grapheme
}
