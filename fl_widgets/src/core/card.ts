/** The details card of one selected record: op, kernel, place, times, bytes, line, decision, buffers. */
import { endOf } from './channels';
import { button, el, type Child } from './dom';
import { formatBytes, formatMoment, formatRate, formatShare, formatTime } from './format';
import { COPY_NAMES, Flag, Kind, TIER_NAMES, TIER_PLACE, tierIndex, type TierName } from './kinds';
import { tierMark } from './marks';
import type { ProfileStore } from './store';
import type { Reason } from './types';

export interface CardActions {
  /** Makes the calls of the op with this string id stand out, or no longer. */
  sameOp(name: number): void;
  /** Selects the kernel that made a buffer. */
  producer(buffer: number): void;
}

/** The reason text is a JSON object {tier: why passed over, "ran": why it ran}; anything else is `ran`. */
export function parseReason(text: string): Reason {
  if (!text.startsWith('{')) {
    return text ? { ran: text } : {};
  }
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null ? (parsed as Reason) : {};
  } catch {
    return { ran: text }; // cut off by the string table: shown as it is
  }
}

export function detailsCard(store: ProfileStore, index: number, actions: CardActions): Child[] {
  const c = store.columns;
  const kind = c.kind[index];
  const tier = TIER_NAMES[tierIndex(c.tier[index])] as TierName | undefined;
  const name = store.text(c.name[index]);
  const head = el('h4', {}, tier && kind === Kind.kernel ? tierMark(tier) : null, el('span.mono', {}, title(kind, name)));
  const out: Child[] = [head, facts(store, index)];
  if (kind === Kind.kernel && tier && c.count[index] === 1) {
    out.push(...decision(tier, parseReason(store.text(c.reason[index]))));
  }
  out.push(...buffers(store, index, actions));
  const calls = kind === Kind.kernel ? countCalls(store, c.name[index]) : 0;
  out.push(
    el(
      'div.acts',
      {},
      calls > 1 ? button(`All ${calls} calls`, () => actions.sameOp(c.name[index])) : null,
      button('Copy as JSON', () => void navigator.clipboard?.writeText(JSON.stringify(plain(store, index), null, 1)))
    )
  );
  return out;
}

function title(kind: number, name: string): string {
  switch (kind) {
    case Kind.copy:
      return `copy, ${COPY_NAMES[name] ?? name}`;
    case Kind.sync:
      return `wait, ${name}`;
    case Kind.compile:
      return `compile ${name}`;
    case Kind.view:
      return `view by ${name}`;
    default:
      return name;
  }
}

function facts(store: ProfileStore, index: number): HTMLElement {
  const c = store.columns;
  const duration = endOf(c, index, store.now) - c.begin[index];
  const rows: [string, Child[]][] = [];
  const kernel = store.text(c.kernel[index]);
  if (kernel) {
    rows.push(['kernel', [el('span.mono', {}, kernel)]]);
  }
  rows.push(['ran on', [place(store, index)]]);
  rows.push(['start', [formatMoment(c.begin[index])]]);
  const share = store.end > 0 ? ` ${formatShare(duration / store.end)} of wall` : '';
  rows.push(['duration', [el('b', {}, formatTime(duration)), el('span.mut', {}, share)]]);
  if (c.count[index] > 1) {
    rows.push(['stands for', [`${c.count[index]} records`, el('span.mut', {}, ' merged; their sums are in Lines')]]);
  }
  if (c.bytes[index] > 0) {
    rows.push(['bytes', [formatBytes(c.bytes[index]), el('span.mut', {}, ` ${formatRate(c.bytes[index], duration)}`)]]);
  }
  if (c.copied[index] > 0) {
    rows.push(['copied', [formatBytes(c.copied[index])]]);
  }
  const shapes = store.text(c.shapes[index]);
  if (shapes) {
    rows.push(['shapes', [el('span.mono', {}, shapes)]]);
  }
  rows.push(...sourceRows(store, index));
  return el('dl', {}, ...rows.flatMap(([term, parts]) => [el('dt', {}, term), el('dd', {}, ...parts)]));
}

function sourceRows(store: ProfileStore, index: number): [string, Child[]][] {
  const c = store.columns;
  const line = store.line(c.location[index]);
  const back = (c.flags[index] & Flag.backward) !== 0;
  const rows: [string, Child[]][] = [];
  if (line > 0) {
    const text = store.sourceLine(line);
    rows.push(['source', [`cell line ${line}`, el('span.mut', {}, back ? ' backward' : ''), text ? el('div.mono.small', {}, text) : null]]);
  }
  const forward = store.line(c.forward[index]);
  if (forward > 0) {
    rows.push(['forward', [`cell line ${forward}`]]);
  }
  const inner = c.inner[index];
  if (inner !== 0 && inner !== c.location[index]) {
    rows.push(['inside', [`line ${store.line(inner)} of the code it called`]]);
  }
  return rows;
}

function place(store: ProfileStore, index: number): string {
  const c = store.columns;
  const device = c.device[index];
  const tier = TIER_NAMES[tierIndex(c.tier[index])] as TierName | undefined;
  const onHost = (c.flags[index] & Flag.host) !== 0 || tier === 'reference' || tier === 'cpu';
  if (c.kind[index] === Kind.sync || c.kind[index] === Kind.compile || device < 0) {
    return device < 0 ? 'host' : `host, for ral:${device}`;
  }
  const measured = (c.flags[index] & Flag.noDeviceTime) !== 0 ? ' (times of the host)' : '';
  return onHost ? `host, for ral:${device}` : `ral:${device}, stream ${c.stream[index]}${measured}`;
}

function decision(ran: TierName, reason: Reason): Child[] {
  const at = TIER_NAMES.indexOf(ran);
  const rows = TIER_NAMES.map((tier, i) => {
    if (tier === ran) {
      const why = reason.ran ?? reason[tier];
      return el(
        'div.mb',
        {},
        tierMark(tier),
        el('span', {}, el('b', {}, `ran: ${tier}, ${TIER_PLACE[tier]}`), why ? el('div.small', {}, why) : null)
      );
    }
    const why = reason[tier];
    if (why || i < at) {
      return el('div.mb', {}, tierMark(tier, 'passed'), el('span', {}, why ?? 'passed over'));
    }
    return el('div.mb', {}, tierMark(tier, 'untried'), el('span.mut', {}, 'not tried'));
  });
  return [el('h5', {}, 'Decision'), ...rows];
}

function buffers(store: ProfileStore, index: number, actions: CardActions): Child[] {
  const c = store.columns;
  const rows: HTMLElement[] = [];
  if (c.parent[index] !== 0) {
    rows.push(bufferRow(store, c.kind[index] === Kind.view ? 'of' : 'in', c.parent[index], actions));
  }
  if (c.buffer[index] !== 0) {
    rows.push(bufferRow(store, c.kind[index] === Kind.view ? 'view' : 'out', c.buffer[index], actions));
  }
  return rows.length > 0 ? [el('h5', {}, 'BufferViews'), ...rows] : [];
}

function bufferRow(store: ProfileStore, role: string, id: number, actions: CardActions): HTMLElement {
  const known = describeBuffer(store, id);
  const label = el('button.lk', { type: 'button', title: 'Select what made it' }, el('code', {}, known.label));
  label.addEventListener('click', () => actions.producer(id));
  const line = known.line ? el('span.small', {}, ` line ${known.line}`) : null;
  return el(
    'div.mb.io',
    {},
    el('span.small', {}, role),
    el('span.lb', {}, label, line),
    el('span', {}, known.bytes > 0 ? formatBytes(known.bytes) : '')
  );
}

/** Label, line and size of a buffer: from the table, else from the record of its birth. */
function describeBuffer(store: ProfileStore, id: number): { label: string; line: number; bytes: number } {
  const row = store.tables.buffers?.find(b => b.id % 2 ** 32 === id);
  if (row) {
    return { label: row.label.replace(/ line \d+$/, ''), line: row.line ?? 0, bytes: row.bytes };
  }
  const c = store.columns;
  for (let i = c.length - 1; i >= 0; i--) {
    if (c.buffer[i] === id && (c.kind[i] === Kind.alloc || c.kind[i] === Kind.view)) {
      return { label: `${store.text(c.name[i])}.0`, line: store.line(c.location[i]), bytes: c.bytes[i] };
    }
  }
  return { label: `buffer ${id}`, line: 0, bytes: 0 };
}

function countCalls(store: ProfileStore, name: number): number {
  const c = store.columns;
  let calls = 0;
  for (let i = 0; i < c.length; i++) {
    calls += c.kind[i] === Kind.kernel && c.name[i] === name ? c.count[i] : 0;
  }
  return calls;
}

/** The record with its strings written out, for the clipboard. */
function plain(store: ProfileStore, index: number): Record<string, unknown> {
  const c = store.columns;
  return {
    op: store.text(c.name[index]),
    kernel: store.text(c.kernel[index]),
    reason: parseReason(store.text(c.reason[index])),
    begin_us: c.begin[index],
    dur_us: c.end[index] - c.begin[index],
    bytes: c.bytes[index],
    copied_bytes: c.copied[index],
    device: c.device[index],
    stream: c.stream[index],
    thread: store.text(c.thread[index]),
    line: store.line(c.location[index]),
    forward_line: store.line(c.forward[index]),
    shapes: store.text(c.shapes[index]),
    buffer: c.buffer[index],
    input: c.parent[index],
    backward: (c.flags[index] & Flag.backward) !== 0,
    count: c.count[index]
  };
}
