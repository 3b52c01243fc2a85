import { fileURLToPath } from 'node:url'
import { defineConfig, type UserConfig } from 'tsdown'

const client = fileURLToPath(new URL('src/index.ts', import.meta.url))

interface Graph {
  getModuleInfo(id: string): { readonly importedIds: readonly string[] } | null
}

/** Whether the client has `id` at once: not what it fetches when it is first used. */
function isCore(id: string, graph: Graph): boolean {
  const found = new Set([client])
  for (const module of found) {
    for (const imported of graph.getModuleInfo(module)?.importedIds ?? []) found.add(imported)
  }
  return found.has(id)
}

const shared: UserConfig = {
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
  report: false,
  logLevel: 'warn',
}

export default defineConfig([
  {
    ...shared,
    name: 'code',
    dts: false,
    clean: true,
    outputOptions: {
      chunkFileNames: 'parts/[name].js',
      // The core is one file. As many, a bundler splits it by what each lazy part needs of it, and a page
      // loads it in five pieces that compress worse than one.
      codeSplitting: {
        groups: [{ name: (id, graph) => (isCore(id, graph as Graph) ? 'client' : null) }],
      },
    },
  },
  { ...shared, name: 'types', unbundle: true, dts: { emitDtsOnly: true }, clean: false },
])
