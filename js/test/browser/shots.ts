import { serve } from '../fake/http.ts'
import { FakeServer } from '../fake/server.ts'
import { launch } from './chromium.ts'

/** Takes pictures of the page in all its looks: `npm run shots FOLDER`. For eyes, not for tests. */
const folder = process.argv[2] ?? 'shots'
const fake = new FakeServer({ countsAbove: 30 }).start()
const server = await serve(fake, new URL(process.env.ROLLCALL_PAGES ?? ''))
const names = [
  'Ana Lindqvist',
  'Benedikt',
  '👩‍🚀 Chidi',
  'Ďurďa Nováková',
  'Émile',
  '田中 さくら',
  'عمر',
  'Maximiliane von Hohenstaufen-Wittelsbach',
  'Zoë Q',
]

function fill(room: string, people: readonly string[]): void {
  for (const [i, name] of people.entries()) {
    const port = { send: () => {}, end: () => {}, pongs: () => true }
    const connection = fake.open(`u${i}`, { name }, null, port)
    const status = i % 4 === 1 ? 'idle' : i % 5 === 3 ? 'away' : 'active'
    fake.join(connection, room, { status })
    if (i % 3 === 0) fake.join(fake.open(`u${i}`, { name }, null, port), room, { status })
  }
}

fill('design:42', names)
fill(
  'keynote',
  Array.from({ length: 1204 }, (_, i) => names[i % names.length] ?? ''),
)

for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [1280, 390]) {
    const { context, close } = await launch({
      colorScheme,
      viewport: { width, height: width > 600 ? 800 : 844 },
    })
    const shot = async (
      name: string,
      query: string,
      act?: (page: Awaited<ReturnType<typeof context.newPage>>) => Promise<unknown>,
    ) => {
      const page = await context.newPage()
      await page.goto(`${server.url}/${query}`)
      await page.locator('#state:not([data-state=connecting])').waitFor()
      await act?.(page)
      await page.waitForTimeout(500)
      await page.screenshot({ path: `${folder}/${name}-${colorScheme}-${width}.png`, fullPage: true })
      await page.close()
    }
    await shot('room', '?room=design:42&user=me&name=Mira Okafor', async () => {
      const port = { send: () => {}, end: () => {}, pongs: () => true }
      const late = fake.open('late', { name: 'Noor' }, null, port)
      fake.join(late, 'design:42', {})
      setTimeout(() => fake.forget(late, 'left'), 2_000)
    })
    await shot('alone', '?user=me&name=Mira Okafor')
    await shot('crowd', '?room=keynote&user=me&name=Mira Okafor')
    await shot('lost', '?room=design:42&user=me&name=Mira Okafor', async (page) => {
      server.down()
      await page.locator('#state[data-state=reconnecting]').waitFor()
    })
    server.up()
    await close()
  }
}
await server.close()
process.exit(0)
