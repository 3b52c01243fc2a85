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
  plugins: [svelte],
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ['test/**/*.test.ts'],
    restoreMocks: true,
    server: { deps: { inline: [/svelte/, /solid-js/] } },
  },
})
