/** The Memory tab: curve of the whole cell, lifetimes of buffers, what was alive at the peak, leaks. */
import { placeBuffers, type PlacedBuffer } from './address_map';
import { Disposer, el, fill, type Child } from './dom';
import { formatBytes, formatTime, plural } from './format';
import { MemoryPainter, CURVE_BOTTOM, MEMORY_GUTTER, MEMORY_HEIGHT, bufferColour } from './memory_paint';
import type { ProfileStore } from './store';
import type { Palette } from './theme';
import type { LeakRow } from './types';
import { Viewport } from './viewport';

const PEAK_ROWS = 9;

export class MemoryView {
  readonly node = el('div');
  private readonly two = el('div.two');
  private readonly stage = el('div.stage', {
    tabindex: 0,
    role: 'application',
    'aria-label': 'Memory over time and lifetimes of buffers. A and D move the window, W and S zoom.',
    'data-lm-suppress-shortcuts': 'true'
  });
  private readonly canvas = el('canvas');
  private readonly tip = el('div.tip', { hidden: true });
  private readonly side = el('div.side');
  private readonly empty = el('div.empty');
  private readonly viewport = new Viewport();
  private readonly disposer = new Disposer();
  private readonly painter: MemoryPainter;
  private device = '';
  private placed: PlacedBuffer[] = [];
  private painted = '';
  private width = 880;
  private framed = false;
  private drag: { x: number; a: number; overview: boolean; moved: boolean } | null = null;

  constructor(
    private readonly store: ProfileStore,
    palette: Palette,
    private readonly repaint: () => void
  ) {
    this.painter = new MemoryPainter(palette);
    this.stage.append(this.canvas, this.tip);
    this.two.append(this.stage, this.side);
    this.node.append(this.empty, this.two);
    this.bind();
  }

  setPalette(palette: Palette): void {
    this.painter.setPalette(palette);
    this.painted = '';
  }

  paint(): void {
    const devices = this.devices();
    this.empty.hidden = devices.length > 0;
    this.two.hidden = devices.length === 0;
    if (devices.length === 0) {
      this.empty.textContent = this.store.running ? 'No device memory in use yet.' : 'No device memory was used in this cell.';
      return;
    }
    if (!devices.includes(this.device)) {
      this.device = devices[0];
      this.framed = false;
    }
    this.refresh(devices);
    this.paintCanvas();
  }

  dispose(): void {
    this.disposer.dispose();
  }

  /** Devices that held memory, the largest peak first. */
  private devices(): string[] {
    const peak = (device: string) => this.store.memoryCurve(device).reduce((m, p) => Math.max(m, p[1]), 0);
    return this.store
      .memoryDevices()
      .filter(device => peak(device) > 0)
      .sort((a, b) => peak(b) - peak(a));
  }

  /** Recomputes what depends on the tables, where they changed. */
  private refresh(devices: string[]): void {
    const state = `${this.store.tablesRevision} ${this.device} ${devices.length} ${this.store.summary.state}`;
    if (state === this.painted) {
      return;
    }
    this.painted = state;
    const rows = (this.store.tables.buffers ?? []).filter(b => b.device === this.device);
    this.placed = placeBuffers(rows, this.store.end);
    const [peakAt] = this.peak();
    if (!this.framed) {
      const span = Math.min(this.store.end, Math.max(60_000, this.store.end / 24));
      this.viewport.show(peakAt - span * 0.57, peakAt + span * 0.43, this.store.end);
      this.framed = !this.store.running;
    }
    fill(this.side, ...this.sidePanel(devices));
  }

  private peak(): [number, number] {
    const curve = this.store.memoryCurve(this.device);
    return curve.reduce<[number, number]>((best, p) => (p[1] > best[1] ? [p[0], p[1]] : best), [0, 0]);
  }

  private paintCanvas(): void {
    this.width = Math.floor(this.stage.clientWidth || this.width);
    this.two.classList.toggle('rfl-wide', this.two.clientWidth < 1000);
    const ratio = window.devicePixelRatio || 1;
    const pixels: [number, number] = [Math.round(this.width * ratio), Math.round(MEMORY_HEIGHT * ratio)];
    if (this.canvas.width !== pixels[0] || this.canvas.height !== pixels[1]) {
      [this.canvas.width, this.canvas.height] = pixels;
      this.canvas.style.height = `${MEMORY_HEIGHT}px`;
    }
    const ctx = this.canvas.getContext('2d', { alpha: false });
    if (ctx) {
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.painter.paint(ctx, {
        width: this.width,
        device: this.device,
        curve: this.store.memoryCurve(this.device),
        buffers: this.placed,
        leaks: this.store.running ? [] : (this.store.tables.leaks ?? []),
        peak: this.peak(),
        end: this.store.end,
        a: this.viewport.a,
        b: this.viewport.b
      });
    }
  }

  private sidePanel(devices: string[]): Child[] {
    const [at, bytes] = this.peak();
    const alive = (this.store.tables.peak ?? []).filter(r => r.device === this.device);
    const top = alive.reduce((m, r) => Math.max(m, r.bytes), 1);
    const palette = this.painter.palette;
    const views = this.placed.filter(p => p.parent && p.begin <= at && p.end >= at);
    const rows = alive.slice(0, PEAK_ROWS).flatMap(row => {
      const shared = views.filter(v => v.parent?.row.label === row.label).slice(0, 1);
      return [this.peakRow(row.label, row.bytes, top, bufferColour(palette, row.label, null)), ...shared.map(v => sharedRow(v.row.label))];
    });
    const rest = alive.length - PEAK_ROWS;
    return [
      devices.length > 1 ? this.deviceChoice(devices) : null,
      el('h4', {}, this.store.running ? 'Alive at the peak so far' : 'Alive at the peak'),
      el('div.mut', {}, `${formatBytes(bytes)}${alive.length > 0 ? ` in ${plural(alive.length, 'buffer')}` : ''}, at ${formatTime(at)}`),
      swatches(palette),
      ...rows,
      rest > 0 ? el('div.mut', {}, `and ${plural(rest, 'smaller one')}`) : null,
      ...this.leakCards(),
      this.totals()
    ];
  }

  private deviceChoice(devices: string[]): HTMLElement {
    const select = el(
      'select',
      { 'aria-label': 'Device' },
      ...devices.map(d => el('option', { value: d, selected: d === this.device }, d))
    );
    select.addEventListener('change', () => {
      this.device = select.value;
      this.framed = false;
      this.repaint();
    });
    return el('div', {}, select);
  }

  private peakRow(label: string, bytes: number, top: number, colour: string): HTMLElement {
    const bar = el('i');
    bar.style.background = colour;
    bar.style.width = `${Math.max(2, (bytes / top) * 100)}%`;
    return el('div.mr', {}, el('div', {}, bufferLabel(label), el('span.num', {}, formatBytes(bytes))), bar);
  }

  private leakCards(): HTMLElement[] {
    const leaks = this.store.running ? [] : (this.store.tables.leaks ?? []);
    if (leaks.length === 0) {
      return [];
    }
    const total = leaks.reduce((sum, l) => sum + l.bytes, 0);
    return [el('div.leak', {}, el('b', {}, `Leak: ${formatBytes(total)} never freed`), ...leaks.slice(0, 5).map(leakText))];
  }

  private totals(): HTMLElement | null {
    const t = this.store.tables.buffers_total;
    return t && t.shown < t.blocks + t.views
      ? el(
          'p.small',
          {},
          `${plural(t.blocks, 'block')} and ${plural(t.views, 'view')} in all; the ${t.shown} largest or longest are drawn.`
        )
      : null;
  }

  private timeAt(x: number): number {
    const inner = this.width - MEMORY_GUTTER - 8;
    return this.viewport.a + ((x - MEMORY_GUTTER) / inner) * this.viewport.span;
  }

  private bind(): void {
    const { stage } = this;
    this.disposer.listen(stage, 'wheel', e => this.onWheel(e), { passive: false });
    this.disposer.listen(stage, 'pointerdown', e => this.onPointerDown(e));
    this.disposer.listen(stage, 'pointermove', e => this.onPointerMove(e));
    this.disposer.listen(stage, 'pointerup', () => (this.drag = null));
    this.disposer.listen(stage, 'pointercancel', () => (this.drag = null));
    this.disposer.listen(stage, 'pointerleave', () => (this.tip.hidden = true));
    this.disposer.listen(stage, 'keydown', e => this.onKey(e));
  }

  private onWheel(e: WheelEvent): void {
    if (!e.ctrlKey && !e.shiftKey) {
      return;
    }
    e.preventDefault();
    const amount = Math.abs(e.deltaY) > Math.abs(e.deltaX) ? e.deltaY : e.deltaX;
    this.framed = true;
    if (e.shiftKey) {
      this.viewport.pan((amount * this.viewport.span) / 900, this.store.end);
    } else {
      const x = e.clientX - this.canvas.getBoundingClientRect().left;
      this.viewport.zoom(Math.exp(Math.max(-60, Math.min(60, amount)) * 0.004), this.timeAt(x), this.store.end);
    }
    this.repaint();
  }

  private onPointerDown(e: PointerEvent): void {
    if (e.button !== 0) {
      return;
    }
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [e.clientX - box.left, e.clientY - box.top];
    stagePointer(this.stage, e.pointerId);
    const overview = y < CURVE_BOTTOM + 8;
    if (overview) {
      const t = ((x - MEMORY_GUTTER) / (this.width - MEMORY_GUTTER - 8)) * this.store.end;
      if (t < this.viewport.a || t > this.viewport.b) {
        this.viewport.show(t - this.viewport.span / 2, t + this.viewport.span / 2, this.store.end);
      }
    }
    this.framed = true;
    this.drag = { x, a: this.viewport.a, overview, moved: false };
    this.repaint();
  }

  private onPointerMove(e: PointerEvent): void {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [e.clientX - box.left, e.clientY - box.top];
    if (this.drag) {
      const inner = this.width - MEMORY_GUTTER - 8;
      const whole = this.drag.overview ? this.store.end : -this.viewport.span;
      const a = this.drag.a + ((x - this.drag.x) / inner) * whole;
      this.viewport.show(a, a + this.viewport.span, this.store.end);
      this.tip.hidden = true;
      this.repaint();
      return;
    }
    const found = this.painter.bufferAt(x, y);
    this.tip.hidden = found === null;
    if (found) {
      const { row } = found;
      const life = row.end_us === null ? 'alive at the end' : `lived ${formatTime(row.end_us - row.begin_us)}`;
      this.tip.textContent = `${row.label}, ${row.view ? 'shares storage' : formatBytes(row.bytes)}, ${life}`;
      this.tip.style.left = `${Math.max(0, Math.min(x + 12, this.width - this.tip.offsetWidth - 4))}px`;
      this.tip.style.top = `${y + 16}px`;
    }
  }

  private onKey(e: KeyboardEvent): void {
    const { viewport, store } = this;
    const middle = (viewport.a + viewport.b) / 2;
    const keys: Record<string, () => void> = {
      w: () => viewport.zoom(0.7, middle, store.end),
      '+': () => viewport.zoom(0.7, middle, store.end),
      s: () => viewport.zoom(1.4, middle, store.end),
      '-': () => viewport.zoom(1.4, middle, store.end),
      a: () => viewport.pan(-viewport.span * 0.2, store.end),
      d: () => viewport.pan(viewport.span * 0.2, store.end),
      '0': () => viewport.show(0, store.end, store.end)
    };
    const call = keys[e.key.toLowerCase()];
    if (call && !e.ctrlKey && !e.metaKey) {
      this.framed = true;
      call();
      e.preventDefault();
      e.stopPropagation();
      this.repaint();
    }
  }
}

function stagePointer(stage: HTMLElement, pointer: number): void {
  stage.focus({ preventScroll: true });
  stage.setPointerCapture(pointer);
}

function bufferLabel(label: string): HTMLElement {
  const at = label.search(/ line \d+$/);
  return el(
    'span.lb',
    { title: label },
    el('code', {}, at < 0 ? label : label.slice(0, at)),
    at < 0 ? null : el('span.small', {}, label.slice(at))
  );
}

function sharedRow(label: string): HTMLElement {
  return el('div.mr', {}, el('div', {}, el('span.mut', {}, '\u2003└ '), bufferLabel(label), el('span.num.mut', {}, 'shared')));
}

function swatches(palette: Palette): HTMLElement {
  const entries: [string, string][] = [
    [palette.colour.br, 'forward'],
    [palette.colour.g, 'gradient'],
    [palette.colour.v, 'scratch'],
    [palette.colour.bad, 'kept']
  ];
  const box = el('div.lg');
  box.style.margin = '8px 0';
  for (const [colour, name] of entries) {
    const mark = el('i.sw');
    mark.style.background = colour;
    box.append(el('span', {}, mark, name));
  }
  return box;
}

function leakText(leak: LeakRow): HTMLElement {
  const where = leak.line ? `Line ${leak.line} leaves` : 'The cell leaves';
  const text = `${where} ${plural(leak.count, 'allocation')}, ${formatBytes(leak.bytes)}. `;
  const holder = leak.kept_by ? [el('code', {}, leak.kept_by), ' keeps them, directly or through a graph.'] : ['Kept, holder unknown.'];
  const cure = leak.kept_by
    ? ['store ', el('code', {}, '.item()'), ' or ', el('code', {}, '.detach()'), ' instead of the tensor.']
    : ['drop the last reference, or wrap the line in ', el('code', {}, 'torch.no_grad()'), '.'];
  return el('p', {}, text, ...holder, el('br'), el('span.mut', {}, 'Cure '), ...cure);
}
