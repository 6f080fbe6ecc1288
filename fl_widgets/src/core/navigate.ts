/** Ways from one record to another: along a lane, across lanes, along the data. Each gives a record's id, or undefined. */
import type { Row } from './layout';
import { Kind } from './kinds';
import type { ProfileStore } from './store';

/** The next (1) or previous (-1) record of the same lane. */
export function inLane(store: ProfileStore, id: number, by: number): number | undefined {
  return store.lanes.get(store.laneKey(id - store.columns.base))?.neighbour(id, by);
}

/** What runs nearest to the record in the next lane down (1) or up (-1); nearest to `middle` (µs) where `id` is null. */
export function acrossLanes(store: ProfileStore, rows: readonly Row[], id: number | null, by: number, middle: number): number | undefined {
  const c = store.columns;
  const filled = rows.filter(r => r.lanes.some(l => l.length > 0));
  const index = id !== null && c.has(id) ? id - c.base : -1;
  const key = index < 0 ? '' : store.laneKey(index);
  const at = filled.findIndex(r => r.lanes.some(l => l.key === key));
  const row = filled[Math.max(0, Math.min(filled.length - 1, at + by))];
  return row?.lanes.find(l => l.length > 0)?.nearest(index < 0 ? middle : c.begin[index]);
}

/** The last kernel that wrote the buffer. */
export function producer(store: ProfileStore, buffer: number): number | undefined {
  const c = store.columns;
  for (let i = c.length - 1; buffer !== 0 && i >= 0; i--) {
    if (c.kind[i] === Kind.kernel && c.buffer[i] === buffer) {
      return c.base + i;
    }
  }
  return undefined;
}

/** The first kernel after the record that reads what the record wrote. */
export function consumer(store: ProfileStore, id: number): number | undefined {
  const c = store.columns;
  const buffer = c.buffer[id - c.base];
  for (let i = id - c.base + 1; buffer !== 0 && i < c.length; i++) {
    if (c.kind[i] === Kind.kernel && c.parent[i] === buffer) {
      return c.base + i;
    }
  }
  return undefined;
}
