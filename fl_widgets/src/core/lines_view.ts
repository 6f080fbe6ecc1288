/** The Lines tab: the cell's lines by op time, each with its tiers; Alt or the button counts backward for forward lines. */
import { Disposer, button, el, fill } from './dom';
import { formatBytes, formatShare, formatTime, plural, thousands } from './format';
import { TIER_NAMES } from './kinds';
import { tierBar } from './marks';
import type { ProfileStore } from './store';
import { TableOrder } from './table_order';
import type { LineRow } from './types';

const COLUMNS: [key: string, label: string, number: boolean][] = [
  ['line', 'Line', true],
  ['source', 'Source', false],
  ['time_us', 'Op time', true],
  ['', 'Tiers', false],
  ['share', 'Share', true],
  ['copy_us', 'Copies', true],
  ['wait_us', 'Python waits', true],
  ['count', 'Ops', true],
  ['alloc_bytes', 'Allocated', true]
];

export class LinesView {
  readonly node = el('div');
  private readonly table = el('table');
  private readonly foot = el('div.foot');
  private readonly order = new TableOrder<LineRow>(r => String(r.line), compareLines, 'time_us');
  private readonly disposer = new Disposer();
  private forward = false;
  private held = false;
  private painted = '';

  constructor(
    private readonly store: ProfileStore,
    private readonly choose: (line: number) => void
  ) {
    this.node.append(el('div.scroll', {}, this.table), this.foot);
    const onAlt = (e: KeyboardEvent) => {
      const held = e.type === 'keydown' && e.key === 'Alt';
      if (e.key === 'Alt' && held !== this.held && this.node.isConnected && !this.node.hidden) {
        this.held = held;
        this.paint();
      }
    };
    for (const type of ['keydown', 'keyup'] as const) {
      document.addEventListener(type, onAlt);
      this.disposer.add(() => document.removeEventListener(type, onAlt));
    }
  }

  paint(): void {
    const byForward = this.forward !== this.held;
    const state = `${this.store.tablesRevision} ${this.store.summary.state} ${byForward} ${this.order.sortKey}`;
    if (state === this.painted) {
      return;
    }
    this.painted = state;
    const { tables } = this.store;
    const all = (byForward ? tables.forward_lines : tables.lines) ?? [];
    const rows = this.order.apply(
      all.filter(r => r.time_us > 0 || (r.copy_us ?? 0) > 0 || (r.wait_us ?? 0) > 0 || (r.count ?? 0) > 0),
      this.store.running
    );
    const total = rows.reduce((sum, r) => sum + r.time_us, 0);
    const most = rows.reduce((m, r) => Math.max(m, r.time_us), 0);
    fill(this.table, this.head(), el('tbody', {}, ...rows.map(row => this.row(row, total, most))));
    const toggle = button(byForward ? 'Count for the calling line' : 'Count for the forward line', () => {
      this.forward = !this.forward;
      this.paint();
    });
    toggle.setAttribute('aria-pressed', String(byForward));
    const quiet = this.store.source.filter(text => text.trim() !== '').length - rows.length;
    const how = byForward
      ? 'Backward counts for its forward line.'
      : 'Backward counts for the line that called it; hold Alt for the forward line.';
    const text = `Op time sums all tiers: N and J on the device, R and C on the host. ${quiet > 0 ? `${plural(quiet, 'line')} ran nothing. ` : ''}${how}`;
    fill(this.foot, el('span', {}, text), toggle);
  }

  dispose(): void {
    this.disposer.dispose();
  }

  private head(): HTMLElement {
    const cells = COLUMNS.map(([key, label, number]) => {
      const sorted = key === this.order.sortKey;
      const up = key === 'line' || key === 'source';
      const th = el(number ? 'th.num' : 'th', { scope: 'col', 'aria-sort': sorted ? (up ? 'ascending' : 'descending') : null });
      if (key === '') {
        th.append(label);
      } else {
        const b = el('button', { type: 'button' }, sorted ? `${label} ${up ? '↑' : '↓'}` : label);
        b.addEventListener('click', () => {
          this.order.sortBy(key);
          this.paint();
        });
        th.append(b);
      }
      return th;
    });
    return el('thead', {}, el('tr', {}, ...cells));
  }

  private row(row: LineRow, total: number, most: number): HTMLElement {
    const time = (us: number | undefined, bold = false) =>
      el((us ?? 0) > 0 ? (bold ? 'td.num.b' : 'td.num') : 'td.num.mut', {}, formatTime(us ?? 0));
    const tiers = TIER_NAMES.map(t => row[`${t}_us`] ?? 0);
    const source = row.source ?? this.store.sourceLine(row.line);
    const tr = el(
      row.time_us > 0 && row.time_us === most ? 'tr.on' : 'tr',
      {},
      el('td.num.mut', {}, String(row.line)),
      el('td.src', { title: source.trim() }, source.trim()),
      time(row.time_us, true),
      el('td', {}, tierBar(tiers, most, 130, 12)),
      el(row.time_us > 0 ? 'td.num' : 'td.num.mut', {}, row.time_us > 0 ? formatShare(row.time_us / total) : 'none'),
      time(row.copy_us),
      time(row.wait_us),
      el(row.count ? 'td.num' : 'td.num.mut', {}, row.count ? thousands(row.count) : 'none'),
      el(row.alloc_bytes ? 'td.num' : 'td.num.mut', {}, formatBytes(row.alloc_bytes ?? 0))
    );
    tr.addEventListener('click', () => this.choose(row.line));
    return tr;
  }
}

function compareLines(a: LineRow, b: LineRow, key: string): number {
  switch (key) {
    case 'line':
      return a.line - b.line;
    case 'source':
      return (a.source ?? '').localeCompare(b.source ?? '') || a.line - b.line;
    case 'copy_us':
    case 'wait_us':
    case 'count':
    case 'alloc_bytes':
      return (b[key] ?? 0) - (a[key] ?? 0) || a.line - b.line;
    default:
      return b.time_us - a.time_us || (b.copy_us ?? 0) - (a.copy_us ?? 0) || a.line - b.line;
  }
}
