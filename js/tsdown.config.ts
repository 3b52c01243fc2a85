import { defineConfig } from 'tsdown'

// One file per module, so that what an application does not import is not in its bundle.
export default defineConfig({
  entry: [
    'src/index.ts',
    'src/core/index.ts',
    'src/react.ts',
    'src/vue.ts',
    'src/svelte.ts',
    'src/solid.ts',
    'src/positions.ts',
    'src/cursors.ts',
    'src/ui.ts',
    'src/testing.ts',
    'src/shared.ts',
    'src/server.ts',
  ],
  format: 'esm',
  platform: 'neutral',
  target: 'es2022',
  deps: { neverBundle: [/^node:/] },
  inputOptions: { checks: { pluginTimings: false } },
  unbundle: true,
  dts: true,
  clean: true,
  report: false,
  logLevel: 'warn',
})
