import { serve } from './http.ts'
import { FakeServer } from './server.ts'

/** The pages on the fake server: `npm run dev [port]`. */
const pages = new URL(process.env.ROLLCALL_PAGES ?? '')
const fake = new FakeServer().start()
const { url } = await serve(fake, pages, Number(process.argv[2] ?? 8080))
console.error(`fake rollcall: listening on ${url}`)
