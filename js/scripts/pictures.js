// Takes the pictures of README.md with the tests that look after them, against a `rollcall dev` as it comes,
// and keeps them in docs/images.
import { spawn, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const addresses = ['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0']
const server = spawn('go', ['run', './cmd/rollcall', 'dev', ...addresses], {
  cwd: here('../..'),
  stdio: ['ignore', 'ignore', 'pipe'],
  detached: true,
})
try {
  const url = await new Promise((resolve, reject) => {
    let said = ''
    server.stderr.on('data', (text) => {
      said += text
      const found = /listening on (http:\S+)/.exec(said)
      if (found) resolve(found[1])
    })
    server.on('exit', () => reject(new Error(`no server came up: ${said}`)))
  })
  const { status } = spawnSync('npx', ['vitest', 'run', '--project', 'server', 'pictures'], {
    cwd: here('..'),
    stdio: 'inherit',
    env: { ...process.env, ROLLCALL_URL: url, ROLLCALL_PICTURES: here('../../docs/images') },
  })
  process.exitCode = status ?? 1
} finally {
  process.kill(-server.pid)
}
