/**
 * Level of detail: records become bars; those under a pixel merge per pixel column, and the column
 * takes the channel with most time in it.
 */
import { CHANNEL_COUNT, Channel, channelOf, endOf, weightOf } from './channels';
import type { Columns } from './columns';
import type { Lane } from './lane';

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
  const xOf = (t: number) => scale.left + (t - scale.a) * perUs;
  const moveTo = (at: number) => {
    if (at !== column) {
      flush();
      column = at;
    }
  };
  const takeBlock = (begin: number, end: number, block: Float64Array): boolean => {
    const at = Math.floor(xOf(begin));
    if (begin < scale.a || end > scale.b || xOf(end) >= at + 1) {
      return false;
    }
    moveTo(at);
    for (let c = 0; c < CHANNEL_COUNT; c++) {
      sums[c] += block[c];
    }
    return true;
  };
  const take = (index: number) => {
    const begin = columns.begin[index];
    const end = endOf(columns, index, scale.now);
    const x0 = Math.max(scale.left, xOf(begin));
    const width = Math.min(scale.right, xOf(end)) - x0;
    const channel = channelOf(columns, index);
    if (width >= 1 && channel !== Channel.view) {
      flush();
      sink.bar(x0, width, channel, index);
    } else {
      moveTo(Math.floor(x0));
      sums[channel] += weightOf(channel, end - begin);
    }
  };
  lane.forEach(scale.a, scale.b, take, takeBlock);
  flush();
}
