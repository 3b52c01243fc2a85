import { compile } from 'svelte/compiler'
import { defineConfig } from 'vitest/config'

// The browser builds of the frameworks, which a runner on Node would not choose by itself.
const conditions = ['browser', 'development']

const svelte = {
  name: 'svelte',
  transform: (source: string, id: string) =>
    id.endsWith('.svelte') ? compile(source, { filename: id, generate: 'client', dev: true }).js : null,
}

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'client',
          include: ['test/**/*.test.ts'],
          exclude: ['test/adapter/**'],
          restoreMocks: true,
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
