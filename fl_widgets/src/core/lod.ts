/**
 * Level of detail: records become bars; those under a pixel merge per pixel column, and the column
 * takes the channel with most time in it.
 */
import type { Columns } from './columns';
import { Kind, Tier, tierIndex } from './kinds';
import type { Lane } from './lane';

/** What a bar stands for: the four tiers 0 to 3, then these. */
export const Channel = { copy: 4, wait: 5, compile: 6, view: 7 } as const;
const CHANNEL_COUNT = 8;

export interface BarSink {
  /** A bar at least a pixel wide; `index` is the record's place in the columns. */
  bar(x: number, width: number, channel: number, index: number): void;
  /** A pixel column of records that are narrower than it. */
  column(x: number, channel: number): void;
}

export interface TimeScale {
  a: number; // microseconds at `left`
  b: number; // microseconds at `right`
  left: number;
  right: number;
  /** End of a record that is still open: where the trace ends so far. */
  now: number;
}

export function channelOf(columns: Columns, index: number): number {
  switch (columns.kind[index]) {
    case Kind.copy:
      return Channel.copy;
    case Kind.sync:
      return Channel.wait;
    case Kind.compile:
      return Channel.compile;
    case Kind.view:
      return Channel.view;
    default:
      return columns.tier[index] === Tier.view ? Channel.view : Math.max(0, tierIndex(columns.tier[index]));
  }
}

/** End of a record on the timeline: an open compile lasts until now. */
export function endOf(columns: Columns, index: number, now: number): number {
  const end = columns.end[index];
  return columns.kind[index] === Kind.compile && end <= columns.begin[index] ? Math.max(now, end) : end;
}

export function layoutBars(columns: Columns, lane: Lane, scale: TimeScale, sink: BarSink): void {
  const perUs = (scale.right - scale.left) / (scale.b - scale.a);
  const sums = new Float64Array(CHANNEL_COUNT);
  let column = -1;
  const flush = () => {
    if (column >= 0) {
      let most = 0;
      for (let c = 1; c < CHANNEL_COUNT; c++) {
        most = sums[c] > sums[most] ? c : most;
      }
      sink.column(column, most);
      sums.fill(0);
      column = -1;
    }
  };
  lane.forEach(scale.a, scale.b, index => {
    const begin = columns.begin[index];
    const end = endOf(columns, index, scale.now);
    const x0 = Math.max(scale.left, scale.left + (begin - scale.a) * perUs);
    const x1 = Math.min(scale.right, scale.left + (end - scale.a) * perUs);
    const width = x1 - x0;
    const channel = channelOf(columns, index);
    if (width >= 1 && channel !== Channel.view) {
      flush();
      sink.bar(x0, width, channel, index);
      return;
    }
    const at = Math.floor(x0);
    if (at !== column) {
      flush();
      column = at;
    }
    // A view or an instant has no time of its own, but must not vanish.
    sums[channel] += Math.max(end - begin, channel === Channel.view ? 1e-9 : 1e-6);
  });
  flush();
}
