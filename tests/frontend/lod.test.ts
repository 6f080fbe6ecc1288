/** Level of detail: bars, pixel columns, and speed with many records. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emptyRecord, type TraceRecord } from '../../fl_widgets/src/core/batch';
import { Channel } from '../../fl_widgets/src/core/channels';
import { Columns } from '../../fl_widgets/src/core/columns';
import { Kind, Tier } from '../../fl_widgets/src/core/kinds';
import { Lane } from '../../fl_widgets/src/core/lane';
import { layoutBars, type TimeScale } from '../../fl_widgets/src/core/lod';
import { OverviewBins } from '../../fl_widgets/src/core/overview_bins';

function laneOf(rows: Partial<TraceRecord>[]): { columns: Columns; lane: Lane } {
  const columns = new Columns(400_000);
  const lane = new Lane('stream:0:0', columns);
  rows.forEach(r =>
    lane.push(columns.append({ ...emptyRecord(), kind: Kind.kernel, tier: Tier.native, device: 0, ...r }, () => assert.fail('dropped')))
  );
  return { columns, lane };
}

function draw(rows: Partial<TraceRecord>[], scale: Partial<TimeScale> = {}) {
  const { columns, lane } = laneOf(rows);
  const bars: [number, number, number, number][] = [];
  const marks: [number, number][] = [];
  layoutBars(
    columns,
    lane,
    { a: 0, b: 1000, left: 100, right: 1100, now: 1000, ...scale },
    {
      bar: (x, w, channel, index) => bars.push([x, w, channel, index]),
      column: (x, channel) => marks.push([x, channel])
    }
  );
  return { bars, marks };
}

test('records of a pixel or more are bars, cut at the edges', () => {
  const { bars, marks } = draw([
    { begin: -50, duration: 100 },
    { begin: 200, duration: 10, tier: Tier.jit },
    { begin: 990, duration: 100, tier: Tier.cpu }
  ]);
  assert.deepEqual(bars, [
    [100, 50, 0, 0],
    [300, 10, 1, 1],
    [1090, 10, 3, 2]
  ]);
  assert.deepEqual(marks, []);
});

test('records under a pixel merge per column, which takes the tier with most time', () => {
  const { bars, marks } = draw([
    { begin: 10.0, duration: 0.2 },
    { begin: 10.3, duration: 0.4, tier: Tier.reference },
    { begin: 10.8, duration: 0.1 },
    { begin: 11.2, duration: 0.3 },
    { begin: 500, duration: 0, kind: Kind.view }
  ]);
  assert.deepEqual(bars, []);
  assert.deepEqual(marks, [
    [110, 2],
    [111, 0],
    [600, Channel.view]
  ]);
});

test('copies, waits and open compiles have their own channels', () => {
  const { bars } = draw([
    { begin: 0, duration: 10, kind: Kind.copy, tier: 0 },
    { begin: 20, duration: 10, kind: Kind.sync, tier: 0 },
    { begin: 900, duration: 0, kind: Kind.compile, tier: 0 }
  ]);
  assert.deepEqual(
    bars.map(b => [b[1], b[2]]),
    [
      [10, Channel.copy],
      [10, Channel.wait],
      [100, Channel.compile]
    ]
  );
});

test('whole runs of records count the same as one by one', () => {
  const rows = Array.from({ length: 1000 }, (_, i) => ({ begin: 100 + i * 0.9, duration: 0.3 + (i % 5) * 0.1, tier: 1 + (i % 4) }));
  const coarse = { a: 0, b: 100_000 };
  const { columns, lane } = laneOf(rows);
  const marks: [number, number][] = [];
  layoutBars(
    columns,
    lane,
    { ...coarse, left: 100, right: 1100, now: 1000 },
    { bar: () => assert.fail('bar'), column: (x, c) => marks.push([x, c]) }
  );
  const sums = new Map<number, number[]>();
  rows.forEach(r => {
    const x = Math.floor(100 + r.begin / 100);
    const at = sums.get(x) ?? [0, 0, 0, 0];
    at[r.tier - 1] += r.duration;
    sums.set(x, at);
  });
  assert.deepEqual(
    marks.map(m => m[0]),
    [...sums.keys()]
  );
  marks.forEach(([x, c]) => assert.ok(Math.max(...sums.get(x)!) - sums.get(x)![c] < 1e-6));
});

test('a compile that still runs is seen in any later window', () => {
  const { bars } = draw([{ begin: 10, duration: 0, kind: Kind.compile, tier: 0 }], { a: 500, b: 1500, now: 1200 });
  assert.deepEqual(bars, [[100, 700, Channel.compile, 0]]);
});

test('nothing outside the window is visited', () => {
  const { columns, lane } = laneOf(Array.from({ length: 5000 }, (_, i) => ({ begin: i, duration: 0.5 })));
  const seen: number[] = [];
  lane.forEach(2000, 2002, i => seen.push(columns.begin[i]));
  assert.deepEqual(seen, [2000, 2001, 2002]);
});

test('a frame over 400 000 records draws one column a pixel', () => {
  const { columns, lane } = laneOf(Array.from({ length: 400_000 }, (_, i) => ({ begin: i * 3, duration: 2, tier: 1 + (i % 4) })));
  const scale = { a: 0, b: 1.2e6, left: 176, right: 1000, now: 1.2e6 };
  let count = 0;
  layoutBars(columns, lane, scale, { bar: () => count++, column: () => count++ });
  assert.ok(count > 800 && count <= 825, `${count} columns`);
});

test('the overview keeps exact sums as its bins double', () => {
  const bins = new OverviewBins();
  let total = 0;
  for (let t = 0; t < 3e6; t += 700) {
    bins.add(2, t, t + 300);
    total += 300;
  }
  assert.ok(bins.width > 2000);
  assert.ok(Math.abs(bins.between(2, 0, 4e6) - total) < 1e-3);
  assert.equal(bins.between(0, 0, 4e6), 0);
});
