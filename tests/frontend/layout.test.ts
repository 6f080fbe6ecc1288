/** Which rows the timeline shows, the address map, the order of tables, the window. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placeBuffers } from '../../fl_widgets/src/core/address_map';
import { parseReason } from '../../fl_widgets/src/core/card';
import { Kind, Tier, shortName } from '../../fl_widgets/src/core/kinds';
import { layoutTimeline, threadName } from '../../fl_widgets/src/core/layout';
import { vendorLetters } from '../../fl_widgets/src/core/marks';
import { ProfileStore } from '../../fl_widgets/src/core/store';
import { TableOrder } from '../../fl_widgets/src/core/table_order';
import type { BufferRow } from '../../fl_widgets/src/core/types';
import { LIVE_WINDOW, Viewport } from '../../fl_widgets/src/core/viewport';
import { makeBatch } from './make_batch';

function storeWith(streams: number): ProfileStore {
  const store = new ProfileStore();
  const rows = Array.from({ length: streams }, (_, i) => ({
    kind: Kind.kernel,
    tier: Tier.native,
    device: 1,
    stream: i,
    begin: i,
    duration: 5
  }));
  store.receive(
    {
      type: 'batch',
      version: 1,
      number: 0,
      sent_ms: 0,
      strings: { '1': '41 MainThread' },
      devices: [{ id: 'ral:1', index: 1, name: 'Intel OpenCL CPU', driver: 'Intel OpenCL 2025.2' }],
      tables: { memory_curve: { 'ral:1': [[0, 100]], 'ral:0': [[0, 0]] } }
    },
    [
      makeBatch(
        [...rows, { kind: Kind.copy, device: 1, begin: 9, duration: 3 }, { kind: Kind.sync, device: 1, begin: 9, duration: 3, thread: 1 }],
        0,
        100
      )
    ]
  );
  return store;
}

test('rows: host pair, streams, copies, memory of devices that held any', () => {
  const { rows, height } = layoutTimeline(storeWith(2));
  assert.deepEqual(
    rows.map(r => [r.kind, r.label, r.height]),
    [
      ['python', 'Python', 17],
      ['host', 'R, C, waits', 26],
      ['stream', 'stream 0', 26],
      ['stream', 'stream 1', 26],
      ['copies', 'copies', 12],
      ['memory', '', 130]
    ]
  );
  assert.deepEqual(rows[2].group, { mark: 'In', title: 'ral:1', note: 'Intel OpenCL 2025.2' });
  assert.deepEqual(rows[5].group, { mark: '', title: 'Memory', note: 'ral:1' });
  rows.slice(1).forEach((r, i) => assert.ok(r.top >= rows[i].top + rows[i].height));
  assert.ok(height > rows[5].top + 130);
});

test('many streams get low lanes and the rest one row', () => {
  const { rows } = layoutTimeline(storeWith(15));
  const streams = rows.filter(r => r.kind === 'stream');
  assert.equal(streams.length, 13);
  assert.ok(streams.every(r => r.height === 14));
  assert.equal(streams[12].label, '3 more streams');
  assert.equal(streams[12].lanes.length, 3);
});

test('names of threads, ops and vendors', () => {
  assert.equal(threadName('41 MainThread'), 'main');
  assert.equal(threadName('42 pt_autograd_0'), 'autograd');
  assert.equal(threadName('43 Loader'), 'Loader');
  assert.equal(shortName('max_pool2d_with_indices_backward'), 'max_pool2d_bwd');
  assert.equal(shortName('_adaptive_avg_pool2d'), 'adaptive_avg_pool2d');
  assert.equal(shortName('__and__'), '__and__');
  assert.equal(vendorLetters({ id: 'ral:0', name: 'cpu-haswell', driver: 'Portable Computing Language 3.1' }), 'Po');
  assert.equal(vendorLetters({ id: 'ral:0', name: 'zeta 3' }), 'Ze');
  assert.equal(vendorLetters({ id: 'ral:0', mark: 'Am', name: 'x' }), 'Am');
});

test('reasons: an object, plain text, or a text that was cut', () => {
  assert.deepEqual(parseReason('{"native": "no manifest entry", "ran": "C++"}'), { native: 'no manifest entry', ran: 'C++' });
  assert.deepEqual(parseReason('measured 12.7 ms vs 61 ms'), { ran: 'measured 12.7 ms vs 61 ms' });
  assert.deepEqual(parseReason('{"native": "no man'), { ran: '{"native": "no man' });
  assert.deepEqual(parseReason(''), {});
});

test('buffers alive at once do not overlap; views lie in their block', () => {
  const row = (id: number, bytes: number, begin: number, end: number | null, parent: number | null = null): BufferRow => ({
    id,
    label: `b${id}`,
    device: 'ral:0',
    bytes,
    begin_us: begin,
    end_us: end,
    parent,
    view: parent !== null
  });
  const placed = placeBuffers(
    [row(1, 100, 0, 50), row(2, 50, 10, null), row(3, 80, 60, 90), row(4, 100, 5, 200, 1), row(5, 10, 6, 20, 4), row(6, 1, 0, 1, 99)],
    300
  );
  const at = new Map(placed.map(p => [p.row.id, [p.address, p.begin, p.end]]));
  assert.deepEqual(at.get(1), [0, 0, 50]);
  assert.deepEqual(at.get(2), [100, 10, 300]);
  assert.deepEqual(at.get(3), [0, 60, 90]);
  assert.deepEqual(at.get(4), [0, 5, 50]);
  assert.deepEqual(at.get(5), [0, 6, 20]);
  assert.equal(at.has(6), false);
});

test('rows keep their places while the cell runs, and are sorted when it ends', () => {
  const order = new TableOrder<[string, number]>(
    r => r[0],
    (a, b) => b[1] - a[1],
    'time'
  );
  assert.deepEqual(
    order
      .apply(
        [
          ['a', 1],
          ['b', 2]
        ],
        true
      )
      .map(r => r[0]),
    ['b', 'a']
  );
  assert.deepEqual(
    order
      .apply(
        [
          ['a', 9],
          ['b', 2],
          ['c', 5]
        ],
        true
      )
      .map(r => r[0]),
    ['b', 'a', 'c']
  );
  assert.deepEqual(
    order
      .apply(
        [
          ['a', 9],
          ['b', 2],
          ['c', 5]
        ],
        false
      )
      .map(r => r[0]),
    ['a', 'c', 'b']
  );
});

test('the window follows now, and stays inside the cell when moved', () => {
  const view = new Viewport();
  view.follow(50_000);
  assert.deepEqual([view.a, view.b], [0, LIVE_WINDOW]);
  view.follow(1_000_000);
  assert.equal(view.span, LIVE_WINDOW);
  assert.ok(view.a < 1_000_000 && view.b > 1_000_000);
  view.pan(5e6, 1_000_000);
  assert.equal(view.following, false);
  assert.ok(Math.abs(view.b - 1_000_000) < 1e-6);
  view.zoom(0.5, view.a, 1_000_000);
  assert.equal(view.span, LIVE_WINDOW / 2);
  view.show(-10, 5e6, 1_000_000);
  assert.deepEqual([view.a, view.b], [0, 1_000_000]);
  view.show(10, 10, 1_000_000);
  assert.equal(view.span, 2);
});
