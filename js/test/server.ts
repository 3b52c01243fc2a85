/** The server that the tests of the project `server` are run against. */
export const url = process.env.ROLLCALL_URL ?? missing()

/** Its lease: `ROLLCALL_LEASE_MS` where it was started with another than the default. */
export const leaseMs = Number(process.env.ROLLCALL_LEASE_MS ?? 30_000)

function missing(): never {
  throw new Error('ROLLCALL_URL is not set: these tests need a `rollcall dev`, which script/js starts')
}
