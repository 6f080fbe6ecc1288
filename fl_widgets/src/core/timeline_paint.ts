/** Draws the timeline on a canvas: overview, axis, lanes, memory. Knows no events and no elements. */
import { Channel, channelOf, endOf, isOpen } from './channels';
import { axis, formatBytes, formatScale, formatTime, scaleTop } from './format';
import { TIER_LETTERS, TIER_NAMES, shortName } from './kinds';
import { AXIS_TOP, GUTTER, OVERVIEW_HEIGHT, OVERVIEW_TOP, RIGHT_PAD, type Row, type TimelineLayout } from './layout';
import { layoutBars, type TimeScale } from './lod';
import { CHANNELS } from './overview_bins';
import type { Search } from './search';
import type { Gap, ProfileStore } from './store';
import type { Palette } from './theme';

export interface TimelineState {
  a: number;
  b: number;
  following: boolean;
  selected: number | null; // record id
  sameName: number | null; // string id of an op whose calls stand out
  line: number | null; // cell line that stands out
  found: Search | null; // what a search found stands out
  measure: [number, number] | null;
}

const OVERVIEW_STEP = 3;

export class TimelinePainter {
  private ctx!: CanvasRenderingContext2D;
  private scale!: TimeScale;
  private readonly widths = new Map<string, number>();

  constructor(
    private readonly store: ProfileStore,
    private palette: Palette
  ) {}

  setPalette(palette: Palette): void {
    this.palette = palette;
    this.widths.clear();
  }

  scaleFor(width: number, state: TimelineState): TimeScale {
    return { a: state.a, b: state.b, left: GUTTER, right: width - RIGHT_PAD, now: this.store.now };
  }

  paint(ctx: CanvasRenderingContext2D, width: number, layout: TimelineLayout, state: TimelineState): void {
    this.ctx = ctx;
    this.scale = this.scaleFor(width, state);
    const { colour } = this.palette;
    ctx.fillStyle = colour.bg;
    ctx.fillRect(0, 0, width, layout.height);
    this.paintOverview(width, state);
    this.paintAxis(width, layout);
    for (const row of layout.rows) {
      this.paintRowHead(row, width);
      ctx.save();
      ctx.beginPath();
      ctx.rect(GUTTER - 3, row.top - 5, this.scale.right - GUTTER + 6, row.height + 10);
      ctx.clip();
      this.paintRow(row, state);
      ctx.restore();
    }
    this.paintGaps(layout);
    this.paintMarkers(layout, state);
  }

  x(t: number): number {
    const s = this.scale;
    return s.left + ((t - s.a) / (s.b - s.a)) * (s.right - s.left);
  }

  private paintOverview(width: number, state: TimelineState): void {
    const { colour, tierPlain } = this.palette;
    const ctx = this.ctx;
    const span = this.store.end;
    const inner = width - GUTTER - RIGHT_PAD;
    const columns = Math.max(1, Math.floor(inner / OVERVIEW_STEP));
    const fills = [...tierPlain, colour.cp];
    const perColumn = span / columns;
    for (let i = 0; i < columns; i++) {
      let filled = 0;
      for (let c = 0; c < CHANNELS && filled < 1; c++) {
        const share = Math.min(1 - filled, this.store.overview.between(c, i * perColumn, (i + 1) * perColumn) / perColumn);
        if (share > 0.02) {
          ctx.fillStyle = fills[c];
          const h = Math.max(1, share * OVERVIEW_HEIGHT);
          ctx.fillRect(GUTTER + i * OVERVIEW_STEP, OVERVIEW_TOP + OVERVIEW_HEIGHT * (1 - filled) - h, 2.6, h);
          filled += share;
        }
      }
    }
    const at = (t: number) => GUTTER + (Math.min(span, Math.max(0, t)) / span) * inner;
    this.paintRanges(at);
    const [fa, fb] = [at(state.a), Math.max(at(state.a) + 2, at(state.b))];
    ctx.globalAlpha = 0.45;
    ctx.fillStyle = colour.bg;
    ctx.fillRect(GUTTER, OVERVIEW_TOP - 2, fa - GUTTER, OVERVIEW_HEIGHT + 4);
    ctx.fillRect(fb, OVERVIEW_TOP - 2, width - RIGHT_PAD - fb, OVERVIEW_HEIGHT + 4);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = colour.br;
    ctx.lineWidth = 1.5;
    this.roundRect(fa, OVERVIEW_TOP - 2.5, fb - fa, OVERVIEW_HEIGHT + 5, 2);
    ctx.stroke();
    const text = this.store.running ? 'so far' : `whole cell, ${formatTime(span)}`;
    this.text(text, GUTTER - 10, OVERVIEW_TOP + 18, { align: 'right' });
  }

  private paintRanges(at: (t: number) => number): void {
    let free = 0;
    this.ctx.lineWidth = 1;
    this.ctx.strokeStyle = this.palette.colour.fg2;
    for (const range of this.store.ranges) {
      const x = at(range.begin);
      if (x >= free) {
        this.line(x, OVERVIEW_TOP - 4, x, OVERVIEW_TOP + OVERVIEW_HEIGHT + 2);
        this.text(range.name.slice(0, 24), x + 4, OVERVIEW_TOP - 6);
        free = x + 12 + this.measure(range.name.slice(0, 24), 10.5);
      }
    }
  }

  private paintAxis(width: number, layout: TimelineLayout): void {
    const { a, b } = this.scale;
    const marks = axis(a, b, Math.max(2, (width - GUTTER) / 100));
    this.ctx.strokeStyle = this.palette.colour.ln;
    this.ctx.lineWidth = 1;
    for (const t of marks.ticks) {
      const x = this.x(t);
      this.line(x, AXIS_TOP + 18, x, layout.height - 6);
      this.text(marks.label(t), x, AXIS_TOP + 13, { align: 'center' });
    }
  }

  private paintRowHead(row: Row, width: number): void {
    const { colour } = this.palette;
    const ctx = this.ctx;
    if (row.group) {
      ctx.strokeStyle = colour.ln;
      ctx.lineWidth = 1;
      this.line(0, row.top - 4.5, width, row.top - 4.5);
      let x = 8;
      if (row.group.mark) {
        ctx.strokeStyle = colour.fg2;
        this.roundRect(8.5, row.top + 0.5, 20, 15, 2);
        ctx.stroke();
        this.text(row.group.mark, 18.5, row.top + 11.5, { align: 'center', weight: 700, size: 9.5, fill: colour.fg });
        x = 34;
      }
      this.text(row.group.title, x, row.top + 12, { weight: 600, size: 11.5, fill: colour.fg });
      this.text(this.fit(row.group.note, row.kind === 'memory' ? 90 : 100, 10), 8, row.top + 29, { size: 10 });
    }
    if (row.kind === 'memory') {
      const top = this.memoryTop(row.device);
      this.text(formatScale(top), GUTTER - 10, row.top + 9, { align: 'right' });
      this.text('0', GUTTER - 10, row.top + row.height + 3, { align: 'right' });
    } else {
      this.text(row.label, GUTTER - 10, row.top + row.height / 2 + 4, { align: 'right' });
    }
  }

  private paintRow(row: Row, state: TimelineState): void {
    if (row.kind === 'python') {
      this.paintPython(row, state);
    } else if (row.kind === 'memory') {
      this.paintMemory(row, state);
    } else {
      row.lanes.forEach(lane => this.paintLane(row, lane, state));
    }
  }

  private paintPython(row: Row, state: TimelineState): void {
    const { colour } = this.palette;
    const spans = this.store.spans;
    const ctx = this.ctx;
    let drawnTo = -1;
    for (let i = Math.max(0, spans.indexAt(this.scale.a)); i < spans.length && spans.begin[i] <= this.scale.b; i++) {
      const x0 = Math.max(GUTTER, this.x(spans.begin[i]));
      const x1 = Math.min(this.scale.right, this.x(spans.end[i]));
      if (x1 < GUTTER || x1 <= drawnTo) {
        continue;
      }
      const w = Math.max(1, x1 - x0 - 0.7);
      ctx.fillStyle = spans.line[i] === state.line ? colour.br : colour.bg3;
      ctx.globalAlpha = spans.line[i] === state.line ? 0.25 : 1;
      this.bar(x0, row.top, w, row.height);
      ctx.globalAlpha = 1;
      drawnTo = x0 + w;
      if (w > 22) {
        const line = spans.line[i];
        const text = w > 150 ? `line ${line}  ${this.store.sourceLine(line)}` : w > 44 ? `line ${line}` : String(line);
        this.text(this.fit(text, w - 8, 10), x0 + 5, row.top + row.height / 2 + 3.5, { size: 10, fill: colour.fg });
      }
    }
  }

  private paintLane(row: Row, lane: Row['lanes'][number], state: TimelineState): void {
    const { colour, tierPlain } = this.palette;
    const { columns } = this.store;
    const fills = [...tierPlain, colour.cp];
    const ctx = this.ctx;
    const bars: [number, number, number, number][] = [];
    const ticks: number[] = [];
    layoutBars(columns, lane, this.scale, {
      bar: (x, w, channel, index) => bars.push([x, w, channel, index]),
      column: (x, channel) => {
        if (channel === Channel.view) {
          ticks.push(x);
        } else if (channel === Channel.wait) {
          ctx.fillStyle = colour.ln;
          ctx.fillRect(x, row.top, 1, row.height);
        } else if (channel === Channel.compile) {
          ctx.fillStyle = tierPlain[1];
          ctx.fillRect(x, row.top, 1, row.height);
        } else {
          ctx.globalAlpha = state.sameName === null && state.line === null && state.found === null ? 1 : 0.35;
          ctx.fillStyle = fills[channel];
          ctx.fillRect(x, row.top, 1, row.height);
          ctx.globalAlpha = 1;
        }
      }
    });
    for (const [x, w, channel, index] of bars) {
      ctx.globalAlpha = this.stands(index, state) ? 1 : 0.3;
      this.paintBar(row, x, Math.max(1, w - 0.7), channel, index);
      ctx.globalAlpha = 1;
    }
    ctx.fillStyle = colour.v;
    ticks.forEach(x => ctx.fillRect(x - 0.5, row.top - 3, 2, 4));
    this.paintSelection(row, lane.key, state);
  }

  /** False for a bar that a search, or a highlight of another op or line, puts back. */
  private stands(index: number, state: TimelineState): boolean {
    const { columns } = this.store;
    if (state.found !== null) {
      return state.found.has(index);
    }
    if (state.sameName !== null) {
      return columns.name[index] === state.sameName;
    }
    return state.line === null || this.store.line(columns.location[index]) === state.line;
  }

  private paintBar(row: Row, x: number, w: number, channel: number, index: number): void {
    if (channel === Channel.wait) {
      this.paintWait(row, x, w, index);
    } else if (channel === Channel.compile) {
      this.paintCompile(row, x, w, index);
    } else if (channel === Channel.copy) {
      this.ctx.fillStyle = this.palette.colour.cp;
      this.bar(x, row.top, w, row.height);
    } else {
      this.paintKernel(row, x, w, channel, index);
    }
  }

  private paintKernel(row: Row, x: number, w: number, tier: number, index: number): void {
    const { tierFill, tierPlain, tierText } = this.palette;
    const ctx = this.ctx;
    const merged = this.store.columns.count[index] > 1;
    ctx.fillStyle = w > 3 ? tierFill[tier] : tierPlain[tier];
    const alpha = ctx.globalAlpha;
    ctx.globalAlpha = merged ? alpha * 0.65 : alpha;
    this.bar(x, row.top, w, row.height);
    ctx.globalAlpha = alpha;
    if (row.height < 14 || w < 10) {
      return;
    }
    const letter = TIER_LETTERS[TIER_NAMES[tier]];
    const name = merged ? `${this.store.columns.count[index]} ops` : shortName(this.store.text(this.store.columns.name[index]));
    const y = row.top + row.height / 2 + 3.5;
    const named = w > this.measure(name, 10) + 25;
    if (tier !== 0 && named) {
      ctx.fillStyle = tierPlain[tier];
      this.bar(x + 3, row.top + row.height / 2 - 6.5, 14 + this.measure(name, 10) + 5, 13);
    } else if (tier !== 0) {
      ctx.fillStyle = tierPlain[tier];
      ctx.fillRect(x + w / 2 - 5, row.top + row.height / 2 - 5.5, 10, 11);
    }
    const fill = tierText[tier];
    if (named) {
      this.text(letter, x + 6, y, { size: 10, weight: 700, fill });
      this.text(name, x + 17, y, { size: 10, fill });
    } else {
      this.text(letter, x + w / 2, y, { size: 10, weight: 700, fill, align: 'center' });
    }
  }

  private paintWait(row: Row, x: number, w: number, index: number): void {
    const ctx = this.ctx;
    const c = this.store.columns;
    ctx.strokeStyle = this.palette.colour.fg2;
    ctx.lineWidth = 1;
    ctx.setLineDash([3, 2.5]);
    this.roundRect(x + 0.5, row.top + 0.5, Math.max(0.5, w - 1), row.height - 1, 2);
    ctx.stroke();
    ctx.setLineDash([]);
    const time = formatTime(c.end[index] - c.begin[index]);
    const where = c.device[index] >= 0 ? ` for ral:${c.device[index]}` : '';
    const text = w > 134 ? `wait${where}, ${time}` : w > 78 ? `wait ${time}` : w > 32 ? 'wait' : '';
    if (text) {
      this.text(text, x + 6, row.top + row.height / 2 + 3.5, { size: 10 });
    }
  }

  private paintCompile(row: Row, x: number, w: number, index: number): void {
    const { colour } = this.palette;
    const c = this.store.columns;
    const ctx = this.ctx;
    this.roundRect(x + 0.5, row.top + 0.5, Math.max(0.5, w - 1), row.height - 1, 2);
    const alpha = ctx.globalAlpha;
    ctx.globalAlpha = alpha * 0.16;
    ctx.fillStyle = colour.j;
    ctx.fill();
    ctx.globalAlpha = alpha;
    ctx.strokeStyle = colour.j;
    ctx.lineWidth = 1;
    ctx.stroke();
    const name = `compile ${shortName(this.store.text(c.name[index]))}`;
    const full = isOpen(c, index) ? name : `${name}, ${formatTime(c.end[index] - c.begin[index])}`;
    const text = [full, name, 'compile'].find(t => this.measure(t, 10) + 12 < w);
    if (text) {
      this.text(text, x + 6, row.top + row.height / 2 + 3.5, { size: 10, fill: colour.fg });
    }
  }

  private paintSelection(row: Row, laneKey: string, state: TimelineState): void {
    const { columns } = this.store;
    if (state.selected === null || !columns.has(state.selected)) {
      return;
    }
    const index = state.selected - columns.base;
    if (this.store.laneKey(index) !== laneKey) {
      return;
    }
    const x0 = Math.max(GUTTER - 2, this.x(columns.begin[index]));
    const x1 = Math.min(this.scale.right + 2, this.x(endOf(columns, index, this.store.now)));
    if (x1 >= GUTTER && x0 <= this.scale.right) {
      this.ctx.strokeStyle = this.palette.colour.fg;
      this.ctx.lineWidth = 2;
      this.roundRect(x0 - 2, row.top - 2.5, Math.max(1, x1 - x0) + 3, row.height + 5, 3);
      this.ctx.stroke();
    }
  }

  private memoryTop(device: string): number {
    const curve = this.store.memoryCurve(device);
    const most = curve.reduce((m, p) => Math.max(m, p[1]), this.store.summary.peak_bytes?.[device] ?? 0);
    return scaleTop(most);
  }

  private paintMemory(row: Row, state: TimelineState): void {
    const points = this.store.memoryCurve(row.device);
    const ctx = this.ctx;
    const { colour } = this.palette;
    const top = this.memoryTop(row.device);
    const y = (bytes: number) => row.top + row.height - (bytes / top) * row.height;
    const end = Math.min(this.scale.b, this.store.end);
    const until = this.x(end);
    const first = points.findIndex(p => p[0] >= this.scale.a);
    let level = first < 0 ? (points[points.length - 1]?.[1] ?? 0) : (points[first - 1]?.[1] ?? 0);
    ctx.beginPath();
    ctx.moveTo(GUTTER, y(level));
    for (let i = first; i >= 0 && i < points.length && points[i][0] <= end; i++) {
      const x = this.x(points[i][0]);
      ctx.lineTo(x, y(level));
      level = points[i][1];
      ctx.lineTo(x, y(level));
    }
    ctx.lineTo(Math.max(GUTTER, until), y(level));
    ctx.strokeStyle = colour.br;
    ctx.lineWidth = 1.5;
    ctx.stroke();
    ctx.lineTo(Math.max(GUTTER, until), row.top + row.height);
    ctx.lineTo(GUTTER, row.top + row.height);
    ctx.closePath();
    ctx.globalAlpha = 0.14;
    ctx.fillStyle = colour.br;
    ctx.fill();
    ctx.globalAlpha = 1;
    this.paintSelectedTime(row, state);
  }

  private paintSelectedTime(row: Row, state: TimelineState): void {
    const { columns } = this.store;
    if (state.selected !== null && columns.has(state.selected)) {
      const index = state.selected - columns.base;
      const x0 = this.x(columns.begin[index]);
      const x1 = this.x(endOf(columns, index, this.store.now));
      this.ctx.globalAlpha = 0.09;
      this.ctx.fillStyle = this.palette.colour.fg;
      this.ctx.fillRect(x0, row.top - 2, Math.max(1, x1 - x0), row.height + 4);
      this.ctx.globalAlpha = 1;
    }
  }

  /** Hatches times whose records are not here: lost batches, and what the bounded store let go. */
  private paintGaps(layout: TimelineLayout): void {
    const { columns, forgotten, gaps } = this.store;
    const gone = forgotten > 0 && columns.length > 0 ? [{ from: 0, to: columns.begin[0], count: 0 }] : [];
    for (const gap of [...gone, ...gaps]) {
      const x0 = Math.max(GUTTER, this.x(gap.from));
      const x1 = Math.min(this.scale.right, this.x(gap.to));
      if (x1 >= GUTTER && x0 <= this.scale.right) {
        this.ctx.fillStyle = this.palette.stripes;
        this.ctx.fillRect(x0, AXIS_TOP + 18, Math.max(2, x1 - x0), layout.height - AXIS_TOP - 24);
        if (x1 - x0 > 120) {
          this.text(gapWords(gap), (x0 + x1) / 2, AXIS_TOP + 34, {
            align: 'center',
            fill: this.palette.colour.fg,
            halo: true
          });
        }
      }
    }
  }

  private paintMarkers(layout: TimelineLayout, state: TimelineState): void {
    const { colour } = this.palette;
    const store = this.store;
    const failed = store.summary.state === 'failed' || store.summary.state === 'cut';
    if ((store.running || failed) && store.end <= this.scale.b && store.end >= this.scale.a) {
      const x = this.x(store.end);
      this.ctx.strokeStyle = colour.bad;
      this.ctx.lineWidth = 1.5;
      this.line(x, AXIS_TOP + 18, x, layout.height - 8);
      const word = store.running ? 'now' : store.summary.state === 'cut' ? 'cut off' : 'error';
      const right = x + 8 + this.measure(word, 10.5) < this.scale.right + RIGHT_PAD;
      this.text(word, right ? x + 5 : x - 5, layout.height - 30, {
        fill: colour.bad,
        weight: 600,
        align: right ? 'left' : 'right',
        halo: true
      });
    }
    if (state.measure) {
      const [m0, m1] = [Math.min(...state.measure), Math.max(...state.measure)];
      const [x0, x1] = [this.x(m0), this.x(m1)];
      this.ctx.globalAlpha = 0.12;
      this.ctx.fillStyle = colour.fg;
      this.ctx.fillRect(x0, AXIS_TOP + 2, x1 - x0, layout.height - AXIS_TOP - 8);
      this.ctx.globalAlpha = 1;
      this.text(formatTime(m1 - m0), (x0 + x1) / 2, AXIS_TOP + 32, { align: 'center', weight: 600, fill: colour.fg, halo: true });
    }
  }

  /** A short sentence on a record, for the tip and the live region. */
  describe(index: number): string {
    const c = this.store.columns;
    const channel = channelOf(c, index);
    const name = this.store.text(c.name[index]);
    const time = formatTime(endOf(c, index, this.store.now) - c.begin[index]);
    const line = this.store.line(c.location[index]);
    const at = line > 0 ? `, line ${line}` : '';
    const back = (c.flags[index] & 1) !== 0 ? ', backward' : '';
    if (c.count[index] > 1) {
      return `${c.count[index]} records of ${name} drawn as one${at}`;
    }
    switch (channel) {
      case Channel.copy:
        return `copy ${name.replace(/_/g, ' ')}, ${formatBytes(c.bytes[index])}, ${time}${at}`;
      case Channel.wait:
        return `wait (${name}), ${time}${at}`;
      case Channel.compile:
        return `compile ${name}, ${isOpen(c, index) ? 'running' : time}`;
      case Channel.view:
        return `view by ${name}${at}`;
      default:
        return `${name}, ${TIER_NAMES[channel]}, ${time}${at}${back}`;
    }
  }

  private text(
    text: string,
    x: number,
    y: number,
    o: { align?: CanvasTextAlign; size?: number; weight?: number; fill?: string; halo?: boolean } = {}
  ): void {
    const ctx = this.ctx;
    ctx.font = `${o.weight ?? 400} ${o.size ?? 10.5}px ${this.palette.ui}`;
    ctx.textAlign = o.align ?? 'left';
    if (o.halo) {
      ctx.strokeStyle = this.palette.colour.bg;
      ctx.lineWidth = 3;
      ctx.strokeText(text, x, y);
    }
    ctx.fillStyle = o.fill ?? this.palette.colour.fg2;
    ctx.fillText(text, x, y);
  }

  private measure(text: string, size: number): number {
    const key = `${size}${text}`;
    let width = this.widths.get(key);
    if (width === undefined) {
      this.ctx.font = `400 ${size}px ${this.palette.ui}`;
      width = this.ctx.measureText(text).width;
      if (this.widths.size > 5000) {
        this.widths.clear();
      }
      this.widths.set(key, width);
    }
    return width;
  }

  /** The longest beginning of `text` that is at most `width` wide. */
  private fit(text: string, width: number, size: number): string {
    const whole = this.measure(text, size);
    return whole <= width ? text : text.slice(0, Math.max(1, Math.floor((text.length * width) / whole) - 1));
  }

  private bar(x: number, y: number, w: number, h: number): void {
    if (w < 4) {
      this.ctx.fillRect(x, y, w, h);
    } else {
      this.roundRect(x, y, w, h, 2);
      this.ctx.fill();
    }
  }

  private roundRect(x: number, y: number, w: number, h: number, r: number): void {
    this.ctx.beginPath();
    this.ctx.roundRect(x, y, Math.max(0, w), Math.max(0, h), r);
  }

  private line(x0: number, y0: number, x1: number, y1: number): void {
    this.ctx.beginPath();
    this.ctx.moveTo(x0, y0);
    this.ctx.lineTo(x1, y1);
    this.ctx.stroke();
  }
}

function gapWords(gap: Gap): string {
  if (gap.count === 0) {
    return 'in the overview only';
  }
  return gap.from > 0 ? `${gap.count} batches lost` : 'before this page opened';
}
