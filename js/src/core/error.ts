/** An error with a stable code: one of the server's, or `invalid`, `closed`, `unreachable` from here. */
export class RollcallError extends Error {
  override readonly name = 'RollcallError'
  readonly code: string
  /** True if trying the same again later can help. */
  readonly retry: boolean

  constructor(code: string, message: string, retry = false) {
    super(`rollcall: ${message}`)
    this.code = code
    this.retry = retry
  }
}

/** A mistake of the caller, found before anything was sent. */
export function invalid(message: string, code = 'invalid'): RollcallError {
  return new RollcallError(code, message)
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
