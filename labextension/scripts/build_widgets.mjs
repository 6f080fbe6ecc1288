// Builds the drawing core for widgets (ESM) and for report.html (one inline script).
import { fileURLToPath } from 'node:url';
import path from 'node:path';
import { build } from 'esbuild';

const widgets = fileURLToPath(new URL('../../fl_widgets', import.meta.url));
const minify = process.argv.includes('--minify');
const common = { bundle: true, minify, target: 'es2021', legalComments: 'none', logLevel: 'warning', charset: 'utf8' };

await build({
  ...common,
  entryPoints: [path.join(widgets, 'src/widget/index.ts')],
  outfile: path.join(widgets, 'static/widget.js'),
  format: 'esm'
});
await build({
  ...common,
  entryPoints: [path.join(widgets, 'src/report/index.ts')],
  outfile: path.join(widgets, 'static/report.js'),
  format: 'iife'
});
console.log('built fl_widgets/static/widget.js and report.js');
