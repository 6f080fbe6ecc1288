// Runs eslint and prettier over the front end from the repository root; --fix rewrites.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const bin = path.join(root, 'labextension/node_modules/.bin');
const fix = process.argv.includes('--fix');
const sources = ['labextension/src', 'labextension/scripts', 'fl_widgets/src', 'tests/frontend/**/*.ts'];

const runs = [
  ['eslint', '-c', 'labextension/eslint.config.mjs', ...(fix ? ['--fix'] : []), ...sources],
  [
    'prettier',
    '--config',
    'labextension/.prettierrc.json',
    '--log-level',
    'warn',
    fix ? '--write' : '--check',
    ...sources,
    'labextension/style/*.css'
  ]
];
let status = 0;
for (const [tool, ...args] of runs) {
  const run = spawnSync(path.join(bin, tool), args, { cwd: root, stdio: 'inherit' });
  status ||= run.status ?? 1;
}
process.exit(status);
