import { browserEnvironment } from './browser.ts'
import { type Client, type ClientOptions, createClient as createIn, type Environment } from './core/index.ts'

export * from './core/index.ts'
export { browserEnvironment }

/** A client of the Rollcall server at `url`. Nothing is opened before the first `enter`. */
export function createClient(
  options: ClientOptions = {},
  environment: Environment = browserEnvironment(),
): Client {
  return createIn(options, environment)
}
