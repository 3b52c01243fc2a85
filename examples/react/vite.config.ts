import { defineConfig } from 'vite'

// The page and the server look like one origin, as they would behind a proxy.
export default defineConfig({
  server: { proxy: { '/v1': { target: 'http://127.0.0.1:8080', ws: true } } },
})
