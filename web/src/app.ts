import { type Client, createClient, type Member, nameOf, type Room } from '@rollcall/client'
import { Breaking } from './breaking.ts'
import { Editor } from './editor.ts'
import { type GuestIdentity, newUser, onRenamedElsewhere, readGuest, rename } from './guest.ts'
import { House } from './house.ts'
import { Notice } from './notice.ts'
import { People } from './people.ts'
import { readRoom, roomAddress } from './place.ts'
import { Pointers } from './pointers.ts'
import { shownState, stateTexts } from './state.ts'

const find = <T extends HTMLElement>(id: string) => document.getElementById(id) as T

const people = new People(find<HTMLUListElement>('people'))
const notice = new Notice(find('notice'))
const pointers = new Pointers(find('field'), find('cursors'))
const editor = new Editor(find('shared'))
const breaking = new Breaking(find('breaking'))
const house = new House(find('house'))
const number = new Intl.NumberFormat()

let guest: GuestIdentity = readGuest(new URLSearchParams(location.search))
let place = readRoom(location)
let client = newClient()
let room = client.enter(place)
let unbind = bind(room)
/** Clients that go as soon as the newest one knows the room. */
const former = new Set<Client>()

function newClient(): Client {
  return createClient({ guest: { user: guest.user, name: guest.name } })
}

/** Shows a room until the returned function is called. */
function bind(shown: Room): () => void {
  const render = () => {
    people.render(visible(shown), guest.user)
    renderCount(shown)
    renderState(shown)
  }
  const stops = [
    pointers.show(shown),
    editor.show(shown),
    house.show(shown),
    breaking.show(shown),
    shown.members.subscribe(render),
    shown.sample.subscribe(render),
    shown.count.subscribe(render),
    shown.health.subscribe(() => renderState(shown)),
    shown.connection.subscribe(() => renderState(shown)),
    shown.self.subscribe((self) => {
      render()
      find('own-status').textContent =
        self === null
          ? ''
          : `You are ${self.status}. Two minutes without input make you idle, a hidden tab away.`
    }),
    shown.on('join', ({ member }) => {
      if (member.user !== guest.user) notice.add(member.user, nameOf(member), true)
    }),
    shown.on('leave', ({ member }) => {
      if (member.user !== guest.user) notice.add(member.user, nameOf(member), false)
    }),
  ]
  return () => {
    for (const stop of stops) stop()
  }
}

/** Everyone, or in a crowd some of them, and always you. */
function visible(shown: Room): readonly Member[] {
  if (shown.mode.get() !== 'counts') return shown.members.get()
  const [sample, self] = [shown.sample.get(), shown.self.get()]
  return self === null || sample.some(({ user }) => user === self.user) ? sample : [self, ...sample]
}

function renderCount(shown: Room): void {
  const count = shown.count.get()
  const known = shown.mode.get() !== null
  const alone = count === 1 && shown.self.get() !== null
  find('count').textContent = !known
    ? '\u00a0'
    : alone
      ? 'Only you, so far'
      : `${number.format(count)} ${count === 1 ? 'person' : 'people'} here`
  find('meet').hidden = !known || !alone
  const hidden = shown.mode.get() === 'counts' ? count - visible(shown).length : 0
  find('more').hidden = hidden <= 0
  find('more').textContent = hidden > 0 ? `and ${number.format(hidden)} more` : ''
  document.title = known ? `(${number.format(count)}) ${place} · Rollcall` : `${place} · Rollcall`
}

function renderState(shown: Room): void {
  const health = shown.health.get()
  const state = shownState(shown)
  const line = find('state')
  find('people').toggleAttribute('data-stale', health.stale && shown.mode.get() !== null)
  find('retry').hidden = state !== 'disconnected'
  if (line.dataset.state === state) return
  line.dataset.state = state
  find('state-text').textContent = stateTexts[state]
  line.title = health.error?.message ?? ''
}

/** Moves to what `guest` and `place` now say. The new one is entered before the old one is left. */
function move(sameRoom: boolean): void {
  if (!sameRoom) {
    const oldRoom = room
    room = client.enter(place)
    oldRoom.leave()
    show()
    return
  }
  former.add(client)
  client = newClient()
  room = client.enter(place)
  const next = room
  // Until the new connection knows the room, the old one goes on showing it: no avatar blinks.
  const stop = next.mode.subscribe((mode) => {
    if (mode === null) return
    queueMicrotask(() => stop())
    if (room !== next) return
    show()
    for (const old of former) old.close()
    former.clear()
  })
}

function show(): void {
  unbind()
  notice.clear()
  unbind = bind(room)
  label()
}

/** Everything that names the guest or the room. */
function label(): void {
  find('room').textContent = place
  find<HTMLInputElement>('name').value = guest.name
  find<HTMLInputElement>('goto').value = place
  find<HTMLAnchorElement>('same').href = location.href
  for (const link of ['other', 'meet']) {
    find<HTMLAnchorElement>(link).href = roomAddress(location, place, newUser())
  }
  find('watch').textContent = `rollcall watch '${place.replaceAll("'", "'\\''")}' --url ${location.origin}`
  find('curl').textContent =
    `curl -N '${location.origin}/v1/rooms/${encodeURIComponent(place)}/stream?observe=1'`
}

function follow(): void {
  const next = readRoom(location)
  if (next === place) return
  place = next
  move(false)
}

find('rename').addEventListener('submit', (event) => {
  event.preventDefault()
  const name = find<HTMLInputElement>('name').value
  if (name.trim() === '' || name === guest.name) return
  guest = rename(guest.user, name)
  move(true)
})
find('go').addEventListener('submit', (event) => {
  event.preventDefault()
  const next = find<HTMLInputElement>('goto').value.trim()
  if (next === '') return
  history.pushState(null, '', roomAddress(location, next, null))
  follow()
})
find('retry').addEventListener('click', () => {
  client.close()
  client = newClient()
  room = client.enter(place)
  show()
})
// Each click brings someone new.
find('other').addEventListener('click', () => setTimeout(label))
addEventListener('popstate', follow)
addEventListener('hashchange', follow)
onRenamedElsewhere(guest.user, (name) => {
  if (name === guest.name) return
  guest = { user: guest.user, name }
  move(true)
})
label()
