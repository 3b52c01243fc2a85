import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { url } from '../server.ts'

export interface Cable {
  /** The server, by way of the cable. */
  readonly url: string
  /** Ends all that goes through it without a word to either side, and lets nothing through until `plug`. */
  pull(): void
  plug(): void
  close(): Promise<void>
}

/** A cable between a browser and the server. */
export async function cable(): Promise<Cable> {
  const { hostname, port } = new URL(url)
  const ends = new Set<Socket>()
  let pulled = false
  const server = createServer((near) => {
    if (pulled) {
      near.destroy()
      return
    }
    const far = connect(Number(port), hostname)
    for (const [end, other] of [
      [near, far],
      [far, near],
    ] as const) {
      ends.add(end)
      end.pipe(other)
      end.on('error', () => other.destroy())
      end.on('close', () => ends.delete(end))
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const pull = () => {
    pulled = true
    for (const end of ends) end.resetAndDestroy()
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    pull,
    plug: () => {
      pulled = false
    },
    close: () => {
      pull()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}
