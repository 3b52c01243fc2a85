import type { Client } from '../core/client.ts'
import type { Status } from '../core/member.ts'
import { checkUsers, maxWatched, nobodyOnline } from '../core/window.ts'
import { Opening } from './opening.ts'

/** Who of these users is online, while it is attached. */
export function onlineOf(
  client: Client,
  users: readonly string[],
): Opening<Client, ReadonlyMap<string, Status>> {
  checkUsers(users, maxWatched)
  return new Opening(
    nobodyOnline,
    (opening) => {
      opening.start(client)
      return () => opening.stop()
    },
    (from) => from.online(users),
  )
}
