/** The page's theme: whether it is dark, and the colours and patterns that the canvases draw with. */
import { TIER_NAMES } from './kinds';

const COLOURS = [
  'bg',
  'bg2',
  'bg3',
  'fg',
  'fg2',
  'ln',
  'br',
  'n',
  'j',
  'r',
  'c',
  'v',
  'cp',
  'g',
  'nt',
  'jt',
  'rt',
  'ct',
  'hx',
  'bad',
  'ok'
] as const;
export type Colour = (typeof COLOURS)[number];

export interface Palette {
  colour: Record<Colour, string>;
  ui: string;
  mono: string;
  dark: boolean;
  /** Fill and text colour of each tier, in the order of TIER_NAMES. */
  tierFill: (string | CanvasPattern)[];
  tierPlain: string[];
  tierText: string[];
  stripes: CanvasPattern | string;
}

/** JupyterLab's word first, then VS Code's, then the system's. */
export function isDark(node: Element): boolean {
  const marked = node.closest('[data-jp-theme-light]') ?? document.querySelector('body[data-jp-theme-light]');
  if (marked) {
    return marked.getAttribute('data-jp-theme-light') === 'false';
  }
  if (/vscode-(light|dark|high-contrast)/.test(document.body.className)) {
    return !/vscode-(light|high-contrast-light)/.test(document.body.className);
  }
  return matchMedia('(prefers-color-scheme: dark)').matches;
}

/** Calls `changed` when the theme of the page may have changed; returns the call that ends it. */
export function watchTheme(changed: () => void): () => void {
  const observer = new MutationObserver(changed);
  observer.observe(document.body, { attributes: true, attributeFilter: ['data-jp-theme-light', 'data-jp-theme-name', 'class'] });
  const media = ['(prefers-color-scheme: dark)', '(prefers-contrast: more)'].map(q => matchMedia(q));
  media.forEach(m => m.addEventListener('change', changed));
  return () => {
    observer.disconnect();
    media.forEach(m => m.removeEventListener('change', changed));
  };
}

/** Reads the colours that the style sheet gives `root`. */
export function readPalette(root: HTMLElement): Palette {
  const probe = document.createElement('span');
  root.append(probe);
  const colour = {} as Record<Colour, string>;
  for (const name of COLOURS) {
    probe.style.color = `var(--${name})`;
    colour[name] = getComputedStyle(probe).color;
  }
  probe.style.fontFamily = 'var(--ui)';
  const ui = getComputedStyle(probe).fontFamily;
  probe.style.fontFamily = 'var(--mono)';
  const mono = getComputedStyle(probe).fontFamily;
  probe.remove();
  const tierPlain = [colour.n, colour.j, colour.r, colour.c];
  return {
    colour,
    ui,
    mono,
    dark: root.dataset.dark === 'true',
    tierPlain,
    tierText: [colour.nt, colour.jt, colour.rt, colour.ct],
    tierFill: TIER_NAMES.map((tier, i) => pattern(tier, tierPlain[i], colour.hx) ?? tierPlain[i]),
    stripes: pattern('reference', colour.bg, colour.ln) ?? colour.bg3
  };
}

/** The tier's pattern: solid, dots 4 px, 45° lines 5 px, cross-hatch 5 px. */
function pattern(tier: string, base: string, mark: string): CanvasPattern | null {
  if (tier === 'native') {
    return null;
  }
  const ratio = 2;
  const size = tier === 'jit' ? 4 : 7;
  const tile = document.createElement('canvas');
  tile.width = tile.height = size * ratio;
  const ctx = tile.getContext('2d');
  if (!ctx) {
    return null;
  }
  ctx.scale(ratio, ratio);
  ctx.fillStyle = base;
  ctx.fillRect(0, 0, size, size);
  ctx.strokeStyle = ctx.fillStyle = mark;
  ctx.lineWidth = 1.3;
  if (tier === 'jit') {
    ctx.beginPath();
    ctx.arc(2, 2, 0.9, 0, 2 * Math.PI);
    ctx.fill();
  } else {
    // Three strokes, so that the diagonal joins across the edges of the tile.
    const diagonal = (sign: number) => {
      for (const shift of [-size, 0, size]) {
        ctx.beginPath();
        ctx.moveTo(shift - 1, sign > 0 ? size + 1 : -1);
        ctx.lineTo(shift + size + 1, sign > 0 ? -1 : size + 1);
        ctx.stroke();
      }
    };
    diagonal(1);
    if (tier === 'cpu') {
      diagonal(-1);
    }
  }
  const made = ctx.createPattern(tile, 'repeat');
  made?.setTransform(new DOMMatrix().scale(1 / ratio));
  return made;
}
