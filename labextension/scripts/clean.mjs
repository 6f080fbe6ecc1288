// Removes what the builds made.
import { rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

for (const made of ['../lib', '../tsconfig.tsbuildinfo', '../../kernel_ext/torch_fl/labextension', '../../fl_widgets/static']) {
  await rm(fileURLToPath(new URL(made, import.meta.url)), { recursive: true, force: true });
}
