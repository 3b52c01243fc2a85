import type { TransportName } from './stream.ts'

/** `auto` = WebSocket, and SSE where that does not get through. */
export type TransportOption = 'auto' | TransportName

/**
 * Which transport to try next. A WebSocket that never worked here gives way after two failures; one
 * that has worked is trusted longer, because then the server is more likely down than the way blocked.
 * From there on the two alternate until one gets through.
 */
export class TransportChoice {
  readonly #option: TransportOption
  readonly #hasSocket: boolean
  #socketWorked = false
  #preferred: TransportName = 'websocket'
  /** Attempts in a row that never became ready. */
  failures = 0

  constructor(option: TransportOption, hasSocket: boolean) {
    this.#option = option
    this.#hasSocket = hasSocket
  }

  pick(): TransportName {
    if (this.#option !== 'auto') return this.#option
    if (!this.#hasSocket) return 'sse'
    const patience = this.#socketWorked ? 6 : 2
    if (this.failures < patience) return this.#preferred
    const other = this.#preferred === 'websocket' ? 'sse' : 'websocket'
    return (this.failures - patience) % 2 === 0 ? other : this.#preferred
  }

  worked(transport: TransportName): void {
    this.failures = 0
    if (transport === 'websocket') this.#socketWorked = true
    this.#preferred = this.#socketWorked ? 'websocket' : transport
  }

  failed(): void {
    this.failures++
  }
}
