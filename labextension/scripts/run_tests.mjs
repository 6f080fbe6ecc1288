// Bundles tests/frontend/*.test.ts and runs them with Node's own test runner.
import { spawnSync } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('../..', import.meta.url));
const tests = path.join(root, 'tests/frontend');
const out = await mkdtemp(path.join(tmpdir(), 'torch-fl-frontend-'));
const files = (await readdir(tests)).filter(name => name.endsWith('.test.ts'));
let status = 1;
try {
  await build({
    entryPoints: files.map(name => path.join(tests, name)),
    outdir: out,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    sourcemap: 'inline',
    logLevel: 'warning'
  });
  const built = files.map(name => path.join(out, name.replace(/\.ts$/, '.mjs')));
  const run = spawnSync(process.execPath, ['--test', '--enable-source-maps', ...built], {
    stdio: 'inherit',
    env: { ...process.env, TORCH_FL_ROOT: root }
  });
  status = run.status ?? 1;
} finally {
  await rm(out, { recursive: true, force: true });
}
process.exit(status);
