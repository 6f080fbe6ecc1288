// Lint rules of the front end; run from the repository root by scripts/lint.mjs.
import js from '@eslint/js';
import globals from 'globals';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  js.configs.recommended,
  ...tseslint.configs.recommended,
  {
    languageOptions: { globals: { ...globals.browser } },
    rules: {
      eqeqeq: 'error',
      curly: 'error',
      'no-console': ['error', { allow: ['warn', 'error'] }],
      'no-restricted-properties': [
        'error',
        { property: 'innerHTML', message: 'Text goes in by textContent.' },
        { property: 'outerHTML', message: 'Text goes in by textContent.' },
        { property: 'insertAdjacentHTML', message: 'Text goes in by textContent.' }
      ]
    }
  },
  {
    // The drawing core knows no Jupyter.
    files: ['fl_widgets/src/**/*.ts'],
    rules: { 'no-restricted-imports': ['error', { patterns: ['@jupyterlab/*', '@lumino/*', '**/labextension/**'] }] }
  },
  {
    files: ['**/*.mjs', 'tests/**'],
    languageOptions: { globals: { ...globals.node } },
    rules: { 'no-console': 'off' }
  }
);
