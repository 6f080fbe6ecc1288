/** Which lanes the timeline shows and where: a plain function of the store, so that it can be tested. */
import type { Lane } from './lane';
import { vendorLetters } from './marks';
import type { ProfileStore } from './store';

export const GUTTER = 176;
export const RIGHT_PAD = 8;
export const OVERVIEW_TOP = 18;
export const OVERVIEW_HEIGHT = 26;
export const AXIS_TOP = 50;
const ROWS_TOP = 70;
const GAP = 5;
const GROUP_GAP = 8;
const BOTTOM = 12;
const MAX_STREAM_ROWS = 12;
const MAX_MEMORY_ROWS = 4;

export type RowKind = 'python' | 'host' | 'stream' | 'copies' | 'compiles' | 'memory';

export interface Row {
  kind: RowKind;
  label: string;
  lanes: Lane[];
  top: number;
  height: number;
  /** "ral:0" for a device's rows. */
  device: string;
  /** Set on the first row of a group. */
  group?: { mark: string; title: string; note: string };
}

export interface TimelineLayout {
  rows: Row[];
  height: number;
}

type Draft = Omit<Row, 'top'>;

/** Rows from top to bottom: host, each device with work, memory of each device that held any. */
export function layoutTimeline(store: ProfileStore): TimelineLayout {
  const drafts = [...hostRows(store), ...deviceRows(store), ...memoryRows(store)];
  const rows: Row[] = [];
  let y = ROWS_TOP;
  for (const draft of drafts) {
    y += draft.group ? GROUP_GAP : 0;
    rows.push({ ...draft, top: y });
    // A group's name and note need two text lines even where its only lane is low.
    const next = drafts[rows.length];
    const least = draft.group && next?.group ? 32 : 0;
    y += Math.max(draft.height, least) + GAP;
  }
  return { rows, height: y - GAP + BOTTOM };
}

function hostRows(store: ProfileStore): Draft[] {
  const rows = new Map<number, { lanes: Lane[]; names: string[] }>();
  for (const [thread, place] of store.hostThreads) {
    const lane = store.lanes.get(`host:${thread}`);
    if (lane && lane.length > 0) {
      const row = rows.get(place.row) ?? { lanes: [], names: [] };
      row.lanes.push(lane);
      row.names.push(threadName(store.text(thread)));
      rows.set(place.row, row);
    }
  }
  const pairs = [...rows.entries()].sort((a, b) => a[0] - b[0]).map(([, row]) => row);
  const first = pairs[0] ?? { lanes: [], names: [] };
  const note = [...new Set(first.names)].slice(0, 3).join(', ') || 'main';
  const out: Draft[] = [
    { kind: 'python', label: 'Python', lanes: [], height: 17, device: '', group: { mark: 'Py', title: 'Host', note } },
    { kind: 'host', label: 'R, C, waits', lanes: first.lanes, height: 26, device: '' }
  ];
  for (const pair of pairs.slice(1)) {
    const label = [...new Set(pair.names)].slice(0, 2).join(', ');
    out.push({ kind: 'host', label, lanes: pair.lanes, height: 20, device: '' });
  }
  const compiles = store.lanes.get('compile:-1');
  if (compiles) {
    out.push({ kind: 'compiles', label: 'compiles', lanes: [compiles], height: 17, device: '' });
  }
  return out;
}

/** "1234 MainThread" reads "main"; PyTorch's autograd threads read "autograd". */
export function threadName(text: string): string {
  const name = text.replace(/^\d+\s*/, '').trim();
  if (name === '' || /^main/i.test(name)) {
    return 'main';
  }
  return /autograd|pt_?autograd/i.test(name) ? 'autograd' : name.slice(0, 18);
}

function deviceRows(store: ProfileStore): Draft[] {
  const out: Draft[] = [];
  const indices = new Set<number>();
  for (const key of store.lanes.keys()) {
    const [kind, device] = key.split(':');
    if (kind !== 'host' && Number(device) >= 0) {
      indices.add(Number(device));
    }
  }
  [...indices]
    .sort((a, b) => a - b)
    .forEach((index, place) => {
      const rows = rowsOfDevice(store, index, place === 0 ? 26 : 20);
      rows[0].group = groupOf(store, `ral:${index}`);
      out.push(...rows);
    });
  return out;
}

function rowsOfDevice(store: ProfileStore, index: number, height: number): Draft[] {
  const device = `ral:${index}`;
  const streams = [...store.lanes.values()]
    .filter(lane => lane.key.startsWith(`stream:${index}:`))
    .sort((a, b) => Number(a.key.split(':')[2]) - Number(b.key.split(':')[2]));
  const low = streams.length > 6 ? 14 : height;
  const rows: Draft[] = streams.slice(0, MAX_STREAM_ROWS).map(lane => ({
    kind: 'stream',
    label: `stream ${lane.key.split(':')[2]}`,
    lanes: [lane],
    height: low,
    device
  }));
  if (streams.length > MAX_STREAM_ROWS) {
    const rest = streams.slice(MAX_STREAM_ROWS);
    rows.push({ kind: 'stream', label: `${rest.length} more streams`, lanes: rest, height: 14, device });
  }
  const copies = store.lanes.get(`copy:${index}`);
  if (copies) {
    rows.push({ kind: 'copies', label: 'copies', lanes: [copies], height: 12, device });
  }
  const compiles = store.lanes.get(`compile:${index}`);
  if (compiles) {
    rows.push({ kind: 'compiles', label: 'compiles', lanes: [compiles], height: 17, device });
  }
  return rows;
}

function groupOf(store: ProfileStore, id: string): Row['group'] {
  const info = store.devices.find(d => d.id === id);
  return {
    mark: info ? vendorLetters(info) : 'Ra',
    title: id,
    note: info ? (info.driver ?? info.name ?? '') : ''
  };
}

function memoryRows(store: ProfileStore): Draft[] {
  const held = store.memoryDevices().filter(device => store.memoryCurve(device).some(p => p[1] > 0));
  const height = held.length <= 1 ? 130 : 64;
  return held.slice(0, MAX_MEMORY_ROWS).map(device => ({
    kind: 'memory',
    label: '',
    lanes: [],
    height,
    device,
    group: { mark: '', title: 'Memory', note: device }
  }));
}
