import { fileURLToPath } from 'node:url'
import { compile } from 'svelte/compiler'
import { defineConfig } from 'vitest/config'

// The browser builds of the frameworks, which a runner on Node would not choose by itself.
const conditions = ['browser', 'development']

const svelte = {
  name: 'svelte',
  transform: (source: string, id: string) =>
    id.endsWith('.svelte') ? compile(source, { filename: id, generate: 'client', dev: true }).js : null,
}

// The page imports the client by the names that applications use.
const source = (file: string) => fileURLToPath(new URL(`src/${file}`, import.meta.url))
const alias = {
  '@rollcall/client/cursors': source('cursors.ts'),
  '@rollcall/client/positions': source('positions.ts'),
  '@rollcall/client': source('index.ts'),
}

export default defineConfig({
  test: {
    maxWorkers: '100%',
    projects: [
      {
        resolve: { alias },
        test: {
          name: 'client',
          include: ['test/*.test.ts'],
          exclude: ['test/live.test.ts'],
          restoreMocks: true,
        },
      },
      {
        resolve: { alias },
        test: {
          name: 'server',
          include: ['test/live.test.ts', 'test/browser/*.test.ts'],
          // A second is little for a page to catch up in, where the machine is busy.
          expect: { poll: { timeout: 10_000 } },
          // They wait for a server and browsers more than they compute, and after the others, so that
          // nobody else computes meanwhile.
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
        },
      },
      {
        plugins: [svelte],
        resolve: { conditions },
        ssr: { resolve: { conditions } },
        test: {
          name: 'adapters',
          include: ['test/adapter/**/*.test.ts'],
          restoreMocks: true,
          server: { deps: { inline: [/svelte/, /solid-js/] } },
        },
      },
    ],
  },
})
