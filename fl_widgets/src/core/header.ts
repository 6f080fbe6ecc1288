/** The header line (state, wall, busy, peak, op time, events, overhead), notes under it, and the live counters. */
import { el, setText, update, type Child } from './dom';
import { formatBytes, formatShare, formatTime, plural, thousands } from './format';
import { TIER_LETTERS, TIER_NAMES, shortName } from './kinds';
import { tierBar } from './marks';
import type { ProfileStore } from './store';
import type { Summary } from './types';

export function stateWord(summary: Summary): string {
  switch (summary.state) {
    case 'running':
      return 'Running';
    case 'failed':
      return summary.failed_line ? `Failed at line ${summary.failed_line}` : 'Failed';
    case 'cut':
      return 'Cut off';
    default:
      return 'Done';
  }
}

/** The dot of a running cell is dimmed half the time. No CSS animation: that would have the page painted at each frame. */
const BEAT_MS = 700;

export function paintHeader(node: HTMLElement, store: ProfileStore, still = false): void {
  const s = store.summary;
  const wall = store.running ? Math.max(store.now, s.wall_us) : s.wall_us;
  const times = TIER_NAMES.map(t => s.op_time_us?.[t] ?? 0);
  const total = times.reduce((a, b) => a + b, 0);
  const peaks = Object.entries(s.peak_bytes ?? {}).filter(([, bytes]) => bytes > 0);
  const dim = store.running && !still && Math.floor(performance.now() / BEAT_MS) % 2 === 1;
  const parts: Child[] = [
    el('div', {}, el('span.dot', { 'data-state': s.state, 'data-dim': dim }), el('b', { title: s.error ?? '' }, stateWord(s))),
    labelled('wall', formatTime(wall))
  ];
  const busy = Object.entries(s.busy ?? {}).sort((a, b) => b[1] - a[1]);
  if (busy.length > 0) {
    parts.push(el('div', {}, el('small', {}, 'busy'), ...busy.flatMap(([id, share]) => valueUnit(formatShare(share), id))));
  }
  if (peaks.length > 0) {
    const [id, bytes] = peaks.reduce((a, b) => (b[1] > a[1] ? b : a));
    const all = peaks.map(([device, peak]) => `${device} ${formatBytes(peak)}`).join(', ');
    parts.push(labelled('peak memory', formatBytes(bytes), peaks.length > 1 ? `largest of ${all}` : id));
  }
  if (total > 0) {
    const shares = TIER_NAMES.map((t, i) => `${TIER_LETTERS[t]} ${percent(times[i] / total)}`).join('  ');
    const label = (s.dropped ?? 0) > 0 ? 'op time, at least' : 'op time';
    parts.push(
      el(
        'div.optime',
        {},
        el('small', { title: `${formatTime(total)} over all tiers` }, label),
        tierBar(times, total, 96, 12),
        el('span', {}, `${shares} %`)
      )
    );
  }
  parts.push(el('div.right', {}, events(s), overhead(s)));
  update(node, ...parts);
}

function percent(share: number): string {
  const p = share * 100;
  return p > 0 && p < 0.5 ? '< 1' : p.toFixed(0);
}

function labelled(label: string, value: string, title = ''): HTMLElement {
  return el('div', { title }, el('small', {}, label), el('b', {}, value));
}

function valueUnit(value: string, unit: string): HTMLElement[] {
  return [el('b', {}, value), el('small.unit', {}, unit)];
}

function events(s: Summary): HTMLElement {
  const dropped = s.dropped ?? 0;
  const lost = el(dropped > 0 ? 'span.bad' : 'span.mut', {}, `, ${thousands(dropped)} dropped`);
  return el('div', {}, el('small', {}, 'events'), thousands(s.events ?? 0), lost);
}

function overhead(s: Summary): HTMLElement | null {
  if (s.overhead === undefined || s.overhead === null) {
    return null;
  }
  return el('div', {}, el('small', {}, 'overhead'), `about ${formatShare(s.overhead)}`, el('span.mut', {}, ', est.'));
}

/** Sentences that a state needs: what was cut off, dropped, thinned or lost. */
export function notes(store: ProfileStore): HTMLElement[] {
  const s = store.summary;
  const out: HTMLElement[] = [];
  if (s.state === 'cut') {
    out.push(el('div.note.bad', {}, 'The kernel ended; the last 40 ms may be missing.'));
  }
  if (s.state === 'failed' && s.error) {
    out.push(el('div.note.bad', {}, `${s.error}. Everything up to the error is here.`));
  }
  if ((s.dropped ?? 0) > 0) {
    const lost = plural(s.dropped ?? 0, 'event was', 'events were');
    out.push(
      el(
        'div.note.bad',
        {},
        `${lost} overwritten before being read, so sums are at least what is shown. `,
        el('span.mut', {}, 'Cure '),
        'set ',
        el('code', {}, 'RAL_TRACE_RECORDS'),
        ' to a larger power of two before the kernel starts.'
      )
    );
  }
  // What was sent before this page opened is hatched, but needs no words: the end brings it.
  const gaps = store.gaps.filter(g => g.from > 0);
  if (gaps.length > 0) {
    const lost = gaps.reduce((n, g) => n + g.count, 0);
    out.push(
      el(
        'div.note',
        {},
        `${plural(lost, 'live batch', 'live batches')} did not reach this page; the gaps are hatched until the cell ends. Sums are not affected.`
      )
    );
  }
  if (store.thinned || store.forgotten > 0) {
    out.push(
      el(
        'div.note',
        {},
        el('span.mut', {}, 'The timeline shows the longest records; short neighbours are drawn as one. Sums count every record.')
      )
    );
  }
  return out;
}

/** The row of counters under a running view; its numbers change at most four times a second. */
export class LiveCounters {
  readonly node = el('div.counters');
  private readonly values: Record<string, { label: HTMLElement; value: HTMLElement }> = {};

  constructor(private readonly store: ProfileStore) {
    for (const key of ['ops', 'device', 'line', 'memory', 'compiling', 'fell']) {
      const label = el('small');
      const value = el('b');
      this.values[key] = { label, value };
      this.node.append(el('div', {}, label, value));
    }
  }

  paint(): void {
    const s = this.store.summary;
    const device = this.mainDevice();
    this.set('ops', 'ops per second', s.ops_per_second ? thousands(s.ops_per_second) : '0');
    this.set('device', `on ${device || 'device'} now`, this.onDevice(device) || 'nothing');
    this.set('line', 'Python is at line', s.line ? String(s.line) : 'unknown');
    this.set('memory', `memory${device ? `, ${device}` : ''}`, formatBytes(s.memory_bytes?.[device] ?? 0));
    this.set('compiling', 'compiling', s.compiling ? shortName(s.compiling) : 'none');
    const [fell, of] = s.fell_back_100ms ?? [0, 0];
    this.set('fell', 'fell back, last 100 ms', of > 0 ? `${thousands(fell)} of ${thousands(of)}` : 'none');
  }

  private set(key: string, label: string, value: string): void {
    setText(this.values[key].label, label);
    setText(this.values[key].value, value);
  }

  /** The device with most memory or most work. */
  private mainDevice(): string {
    const s = this.store.summary;
    const by = { ...s.peak_bytes };
    Object.entries(s.busy ?? {}).forEach(([id, share]) => {
      by[id] = (by[id] ?? 0) + share;
    });
    return Object.entries(by).sort((a, b) => b[1] - a[1])[0]?.[0] ?? '';
  }

  /** The op whose kernel ran last on the device, or on the host for it. */
  private onDevice(device: string): string {
    const index = Number(device.split(':')[1] ?? -1);
    let best = '';
    let latest = -1;
    for (const lane of this.store.lanes.values()) {
      if (lane.key.startsWith(`stream:${index}:`)) {
        const id = lane.nearest(this.store.now);
        const i = id === undefined ? -1 : id - this.store.columns.base;
        if (i >= 0 && this.store.columns.end[i] > latest) {
          latest = this.store.columns.end[i];
          best = shortName(this.store.text(this.store.columns.name[i]));
        }
      }
    }
    return this.store.now - latest < 250_000 ? best : '';
  }
}
