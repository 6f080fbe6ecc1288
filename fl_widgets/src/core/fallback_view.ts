/** The Fallback tab: one row for each op and outcome that ran off native, with its chain as four boxes. */
import { button, el, fill } from './dom';
import { formatBytes, formatShare, formatTime, plural, thousands } from './format';
import { TIER_NAMES, type TierName } from './kinds';
import { tierBar, tierMark } from './marks';
import type { ProfileStore } from './store';
import { TableOrder } from './table_order';
import type { FallbackRow } from './types';

const FIRST_ROWS = 7;
const MORE_ROWS = 50;

const COLUMNS: [key: string, label: string, number: boolean][] = [
  ['op', 'Op', false],
  ['', 'Chain, left to right', false],
  ['kernel', 'Kernel', false],
  ['count', 'Calls', true],
  ['time_us', 'Op time', true],
  ['-', '', false],
  ['copied_bytes', 'Copied', true]
];

/** Rows of the table that ran on a tier after the first: what the tab counts as chains. */
export function chainsOff(store: ProfileStore): FallbackRow[] {
  return (store.tables.fallback ?? []).filter(row => row.tier !== 'native' && row.tier !== 'view');
}

export class FallbackView {
  readonly node = el('div');
  private readonly order = new TableOrder<FallbackRow>(keyOf, compareRows, 'time_us');
  private shown = FIRST_ROWS;
  private painted = '';

  constructor(
    private readonly store: ProfileStore,
    private readonly choose: (op: string) => void
  ) {}

  paint(): void {
    const state = `${this.store.tablesRevision} ${this.store.summary.state} ${this.order.sortKey} ${this.shown}`;
    if (state === this.painted) {
      return;
    }
    this.painted = state;
    const rows = this.order.apply(chainsOff(this.store), this.store.running);
    if (rows.length === 0) {
      fill(this.node, el('div.empty', {}, this.nothing()));
      return;
    }
    const most = rows.reduce((m, r) => Math.max(m, r.time_us), 0);
    const body = rows.slice(0, this.shown).map(row => this.row(row, most));
    const table = el('table', {}, this.head(), el('tbody', {}, ...body));
    fill(this.node, el('div.scroll', {}, table), this.foot(rows));
  }

  dispose(): void {
    fill(this.node);
  }

  private nothing(): string {
    const counts = this.store.summary.op_count ?? {};
    const ran = TIER_NAMES.reduce((n, t) => n + (counts[t] ?? 0), 0);
    if (ran === 0) {
      return this.store.running ? 'No op has run yet.' : 'No device work in this cell. Every tensor was on cpu.';
    }
    return this.store.running ? `All ${plural(ran, 'op')} so far ran native.` : `All ${plural(ran, 'op')} ran native.`;
  }

  private head(): HTMLElement {
    const cells = COLUMNS.map(([key, label, number]) => {
      const sorted = key === this.order.sortKey;
      const up = key === 'op' || key === 'kernel';
      const th = el(number ? 'th.num' : 'th', { scope: 'col', 'aria-sort': sorted ? (up ? 'ascending' : 'descending') : null });
      if (key === '' || key === '-') {
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

  private row(row: FallbackRow, most: number): HTMLElement {
    const values = TIER_NAMES.map(t => (t === row.tier ? row.time_us : 0));
    const lines = row.lines ?? [];
    const at =
      lines.length > 0 ? `${lines.length > 1 ? 'lines' : 'line'} ${lines.slice(0, 6).join(', ')}${lines.length > 6 ? ', …' : ''}` : '';
    const tr = el(
      row.time_us === most ? 'tr.on' : 'tr',
      {},
      el('td', {}, breakable(row.op), el('div.mut', {}, [at, row.device].filter(Boolean).join(', '))),
      el('td', {}, chain(row)),
      el('td', {}, el('code', {}, ...pieces(row.kernel ?? ''))),
      el('td.num', {}, thousands(row.count)),
      el('td.num.b', {}, formatTime(row.time_us)),
      el('td', {}, tierBar(values, most, 84, 10)),
      el(row.copied_bytes ? 'td.num' : 'td.num.mut', {}, formatBytes(row.copied_bytes ?? 0))
    );
    tr.addEventListener('click', () => this.choose(row.op));
    return tr;
  }

  private foot(rows: FallbackRow[]): HTMLElement {
    const total = rows.reduce((sum, r) => sum + r.time_us, 0);
    const all = TIER_NAMES.reduce((sum, t) => sum + (this.store.summary.op_time_us?.[t] ?? 0), 0);
    const share = all > 0 ? `, ${formatShare(total / all)} of it all` : '';
    const text = `${plural(rows.length, 'chain')} ran off native: ${formatTime(total)} of op time${share}. R and C ran on the host.`;
    const hidden = rows.length - this.shown;
    const more =
      hidden > 0
        ? button(`Show ${plural(Math.min(hidden, MORE_ROWS), 'shorter one')}`, () => {
            this.shown += MORE_ROWS;
            this.paint();
          })
        : null;
    return el('div.foot', {}, el('span', {}, text), more);
  }
}

/** The four boxes N J R C: passed over with its reason, ran, or not tried. */
export function chain(row: FallbackRow): HTMLElement {
  const at = TIER_NAMES.indexOf(row.tier as TierName);
  const reason = row.reason ?? {};
  const boxes = TIER_NAMES.map((tier, i) => {
    if (i === at) {
      const why = reason.ran ?? reason[tier];
      return el(`div.ran.${tier}`, { title: why ?? '' }, tierMark(tier), el('span', {}, tier));
    }
    const why = reason[tier];
    return why || i < at
      ? el('div.passed', { title: `${tier}: ${why ?? 'passed over'}` }, tierMark(tier, 'passed'), el('span', {}, why ?? 'passed over'))
      : el('div.untried', {}, tierMark(tier, 'untried'), el('span', {}, 'not tried'));
  });
  return el('div.ch', {}, ...boxes);
}

/** An op's name that may break before an underscore. */
function breakable(text: string): HTMLElement {
  return el('code', {}, ...pieces(text));
}

function pieces(text: string): (Node | string)[] {
  return text.split(/(?=_)/).flatMap((part, i) => (i === 0 ? [part] : [el('wbr'), part]));
}

function keyOf(row: FallbackRow): string {
  return `${row.op} ${row.tier} ${row.device ?? ''} ${JSON.stringify(row.reason ?? null)}`;
}

function compareRows(a: FallbackRow, b: FallbackRow, key: string): number {
  switch (key) {
    case 'op':
      return a.op.localeCompare(b.op);
    case 'kernel':
      return (a.kernel ?? '').localeCompare(b.kernel ?? '');
    case 'count':
      return b.count - a.count;
    case 'copied_bytes':
      return (b.copied_bytes ?? 0) - (a.copied_bytes ?? 0) || b.time_us - a.time_us;
    default:
      return b.time_us - a.time_us || a.op.localeCompare(b.op);
  }
}
