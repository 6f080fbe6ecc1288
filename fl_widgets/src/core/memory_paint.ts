/** Draws the Memory tab's canvas: the curve of the whole cell above, the address map of a window below. */
import type { PlacedBuffer } from './address_map';
import { axis, formatBytes, formatScale, formatTime, scaleTop } from './format';
import type { Palette } from './theme';
import type { LeakRow } from './types';

export const MEMORY_GUTTER = 64;
export const MEMORY_HEIGHT = 408;
const CURVE_TOP = 26;
const CURVE_HEIGHT = 62;
export const CURVE_BOTTOM = CURVE_TOP + CURVE_HEIGHT;
const MAP_TOP = 126;
const MAP_HEIGHT = 262;

export interface MemoryPicture {
  width: number;
  device: string;
  curve: readonly [number, number][];
  buffers: readonly PlacedBuffer[];
  leaks: readonly LeakRow[];
  peak: [number, number];
  end: number;
  a: number;
  b: number;
}

/** Blue forward, violet gradient, grey scratch, red kept: the Memory tab's own marks, none of them a tier. */
export function bufferColour(palette: Palette, label: string, kept: boolean | null): string {
  const { colour } = palette;
  if (kept === true) {
    return colour.bad;
  }
  if (/\.tmp\b/.test(label)) {
    return colour.v;
  }
  return /_backward\b|_backward[._]|\.grad\b/.test(label) ? colour.g : colour.br;
}

interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
  buffer: PlacedBuffer;
}

export class MemoryPainter {
  private boxes: Box[] = [];
  private ctx!: CanvasRenderingContext2D;

  constructor(public palette: Palette) {}

  setPalette(palette: Palette): void {
    this.palette = palette;
  }

  /** The buffer drawn at a point, views before their parents. */
  bufferAt(x: number, y: number): PlacedBuffer | null {
    for (let i = this.boxes.length - 1; i >= 0; i--) {
      const b = this.boxes[i];
      if (x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + Math.max(3, b.h)) {
        return b.buffer;
      }
    }
    return null;
  }

  paint(ctx: CanvasRenderingContext2D, p: MemoryPicture): void {
    this.ctx = ctx;
    ctx.fillStyle = this.palette.colour.bg;
    ctx.fillRect(0, 0, p.width, MEMORY_HEIGHT);
    this.paintCurve(p);
    this.paintMap(p);
  }

  private paintCurve(p: MemoryPicture): void {
    const { colour } = this.palette;
    const ctx = this.ctx;
    const top = scaleTop(p.peak[1]);
    const inner = p.width - MEMORY_GUTTER - 8;
    const x = (t: number) => MEMORY_GUTTER + (t / p.end) * inner;
    const y = (bytes: number) => CURVE_BOTTOM - (bytes / top) * CURVE_HEIGHT;
    this.text(`Allocated on ${p.device}`, 8, 14, 600, colour.fg, 11.5);
    if (p.width > 720) {
      this.text('whole cell; drag to move the window', 126, 14);
    }
    for (const share of [0, 0.5, 1]) {
      this.rule(MEMORY_GUTTER, y(share * top) + 0.5, p.width - 8);
      this.text(formatScale(share * top), MEMORY_GUTTER - 8, y(share * top) + 4, 400, colour.fg2, 10.5, 'right');
    }
    ctx.beginPath();
    ctx.moveTo(x(0), y(0));
    let level = 0;
    for (const [t, bytes] of p.curve) {
      ctx.lineTo(x(t), y(level));
      ctx.lineTo(x(t), y(bytes));
      level = bytes;
    }
    ctx.lineTo(x(p.end), y(level));
    ctx.strokeStyle = colour.br;
    ctx.lineWidth = 1;
    ctx.stroke();
    ctx.lineTo(x(p.end), y(0));
    ctx.closePath();
    this.tint(colour.br, 0.14, () => ctx.fill());
    this.leakStep(p, x, y);
    ctx.strokeStyle = colour.br;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(x(p.a), CURVE_TOP - 3, Math.max(2, x(p.b) - x(p.a)), CURVE_HEIGHT + 6);
    this.peakMark(p, x(p.peak[0]), y(p.peak[1]));
  }

  /** Bytes of the lines that leak, rising as their blocks were allocated. */
  private leakStep(p: MemoryPicture, x: (t: number) => number, y: (bytes: number) => number): void {
    const kept = p.buffers.filter(b => isKept(b, p)).sort((a, b) => a.begin - b.begin);
    const total = p.leaks.reduce((sum, l) => sum + l.bytes, 0);
    if (kept.length === 0 || total <= 0) {
      return;
    }
    const ctx = this.ctx;
    ctx.beginPath();
    let level = 0;
    ctx.moveTo(x(kept[0].begin), y(0));
    for (const b of kept) {
      ctx.lineTo(x(b.begin), y(level));
      level += b.row.bytes;
      ctx.lineTo(x(b.begin), y(level));
    }
    ctx.lineTo(x(p.end), y(level));
    ctx.strokeStyle = this.palette.colour.bad;
    ctx.lineWidth = 2;
    ctx.stroke();
    this.text(`${formatBytes(total)} kept`, x(p.end) - 6, y(level) - 5, 600, this.palette.colour.bad, 10.5, 'right', true);
  }

  private peakMark(p: MemoryPicture, x: number, y: number): void {
    const { colour } = this.palette;
    const ctx = this.ctx;
    const label = `peak ${formatBytes(p.peak[1])} at ${formatTime(p.peak[0])}`;
    const left = x > p.width - 240;
    const least = p.width > 720 ? 360 : 150; // right of the heading
    const at = Math.max(least, left ? x - 46 : x + 46);
    ctx.strokeStyle = colour.fg2;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(x, y - 4);
    ctx.lineTo(x, 11);
    ctx.lineTo(at + (left && at < x ? 4 : -4), 11);
    ctx.stroke();
    this.text(label, at, 14, 600, colour.fg, 10.5, left && at < x ? 'right' : 'left');
    ctx.beginPath();
    ctx.arc(x, y, 3.5, 0, 2 * Math.PI);
    ctx.fillStyle = colour.fg;
    ctx.fill();
  }

  private paintMap(p: MemoryPicture): void {
    const { colour } = this.palette;
    const ctx = this.ctx;
    const inner = p.width - MEMORY_GUTTER - 8;
    const x = (t: number) => MEMORY_GUTTER + ((Math.min(p.b, Math.max(p.a, t)) - p.a) / (p.b - p.a)) * inner;
    const visible = p.buffers.filter(b => b.end > p.a && b.begin < p.b);
    const highest = p.buffers.reduce((m, b) => Math.max(m, b.parent ? 0 : b.address + b.row.bytes), 1);
    const top = scaleTop(highest);
    const y = (bytes: number) => MAP_TOP + MAP_HEIGHT - (bytes / top) * MAP_HEIGHT;
    this.text('BufferViews', 8, MAP_TOP - 14, 600, colour.fg, 11.5);
    this.text('height = bytes, place = first fit, a dashed box shares its parent’s storage', 92, MAP_TOP - 14);
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      this.rule(MEMORY_GUTTER, y(share * top) + 0.5, p.width - 8);
      this.text(formatScale(share * top), MEMORY_GUTTER - 8, y(share * top) + 4, 400, colour.fg2, 10.5, 'right');
    }
    const marks = axis(p.a, p.b, Math.max(2, inner / 110));
    for (const t of marks.ticks) {
      ctx.strokeStyle = colour.ln;
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(x(t), MAP_TOP);
      ctx.lineTo(x(t), MAP_TOP + MAP_HEIGHT + 4);
      ctx.stroke();
      this.text(marks.label(t), x(t), MAP_TOP + MAP_HEIGHT + 16, 400, colour.fg2, 10.5, 'center');
    }
    this.boxes = [];
    const shared = new Set(visible.map(b => b.parent));
    visible.filter(b => !b.parent).forEach(b => this.paintBlock(b, p, x, y, shared.has(b)));
    visible.filter(b => b.parent).forEach(b => this.paintView(b, x, y));
    this.paintPeakLine(p, x);
  }

  private paintBlock(b: PlacedBuffer, p: MemoryPicture, x: (t: number) => number, y: (n: number) => number, shared: boolean): void {
    const kept = isKept(b, p);
    const fill = bufferColour(this.palette, b.row.label, kept);
    const x0 = x(b.begin);
    const w = Math.max(2, x(b.end) - x0 - 1);
    const y0 = y(b.address + b.row.bytes);
    const h = Math.max(1.5, y(b.address) - y0 - 1);
    const ctx = this.ctx;
    ctx.beginPath();
    ctx.roundRect(x0, y0, w, h, Math.min(1.5, h / 2));
    ctx.fillStyle = this.palette.colour.bg;
    ctx.fill();
    this.tint(fill, kept ? 0.2 : 0.3, () => ctx.fill());
    ctx.strokeStyle = fill;
    ctx.lineWidth = kept ? 0.4 : 0.8;
    ctx.stroke();
    this.boxes.push({ x: x0, y: y0, w, h, buffer: b });
    if (h > (shared ? 32 : 11)) {
      const label = b.row.label;
      const name = label.replace(/ line \d+$/, '');
      const choices = [`${label}  ${formatBytes(b.row.bytes)}`, label, name];
      ctx.font = `400 10px ${this.palette.ui}`;
      const text = choices.find(t => ctx.measureText(t).width + 12 < w);
      if (text) {
        this.text(text, x0 + 6, y0 + Math.min(h / 2 + 3.5, 13), 400, this.palette.colour.fg, 10);
      }
    }
  }

  private paintView(b: PlacedBuffer, x: (t: number) => number, y: (n: number) => number): void {
    const parent = b.parent;
    const whole = parent ? y(parent.address) - y(parent.address + parent.row.bytes) : 0;
    const x0 = x(b.begin) + 4;
    const w = x(b.end) - x(b.begin) - 8;
    if (!parent || whole < 20 || w < 6) {
      return;
    }
    const y0 = y(parent.address) - 18;
    const ctx = this.ctx;
    ctx.beginPath();
    ctx.roundRect(x0, y0, w, 14, 2);
    this.tint(this.palette.colour.bg, 0.7, () => ctx.fill());
    ctx.setLineDash([3, 2]);
    ctx.strokeStyle = this.palette.colour.fg2;
    ctx.lineWidth = 1;
    ctx.stroke();
    ctx.setLineDash([]);
    this.boxes.push({ x: x0, y: y0, w, h: 14, buffer: b });
    ctx.font = `400 10px ${this.palette.ui}`;
    const text = [`${b.row.label}, shares storage`, b.row.label].find(t => ctx.measureText(t).width + 12 < w);
    if (text) {
      this.text(text, x0 + 6, y0 + 10.5, 400, this.palette.colour.fg2, 10);
    }
  }

  private paintPeakLine(p: MemoryPicture, x: (t: number) => number): void {
    const at = p.peak[0];
    if (at < p.a || at > p.b) {
      return;
    }
    const ctx = this.ctx;
    ctx.strokeStyle = this.palette.colour.fg;
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.moveTo(x(at), MAP_TOP - 6);
    ctx.lineTo(x(at), MAP_TOP + MAP_HEIGHT);
    ctx.stroke();
    this.text('peak', x(at) + 5, MAP_TOP - 1, 600, this.palette.colour.fg, 10.5, 'left', true);
  }

  private tint(colour: string, alpha: number, draw: () => void): void {
    this.ctx.fillStyle = colour;
    this.ctx.globalAlpha = alpha;
    draw();
    this.ctx.globalAlpha = 1;
  }

  private rule(x0: number, y: number, x1: number): void {
    this.ctx.strokeStyle = this.palette.colour.ln;
    this.ctx.lineWidth = 1;
    this.ctx.beginPath();
    this.ctx.moveTo(x0, y);
    this.ctx.lineTo(x1, y);
    this.ctx.stroke();
  }

  private text(
    text: string,
    x: number,
    y: number,
    weight = 400,
    fill = this.palette.colour.fg2,
    size = 10.5,
    align: CanvasTextAlign = 'left',
    halo = false
  ): void {
    const ctx = this.ctx;
    ctx.font = `${weight} ${size}px ${this.palette.ui}`;
    ctx.textAlign = align;
    if (halo) {
      ctx.strokeStyle = this.palette.colour.bg;
      ctx.lineWidth = 3;
      ctx.strokeText(text, x, y);
    }
    ctx.fillStyle = fill;
    ctx.fillText(text, x, y);
  }
}

/** A block that a leaking line left alive. */
function isKept(b: PlacedBuffer, p: MemoryPicture): boolean {
  return b.row.end_us === null && b.row.line !== undefined && p.leaks.some(l => l.line !== null && l.line === b.row.line);
}
