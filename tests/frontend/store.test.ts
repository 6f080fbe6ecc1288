/** The store: bounds, order, gaps, threads, bundles between live batches. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TraceRecord } from '../../fl_widgets/src/core/batch';
import { Flag, Kind, Tier } from '../../fl_widgets/src/core/kinds';
import { ProfileStore } from '../../fl_widgets/src/core/store';
import type { BatchMessage, Bundle, Summary } from '../../fl_widgets/src/core/types';
import { makeBatch } from './make_batch';

const running: Summary = { state: 'running', wall_us: 0 };

function message(number: number, summary: Summary = running): BatchMessage {
  return { type: 'batch', version: 1, number, sent_ms: 1000 + number, summary };
}

function kernel(begin: number, duration: number, more: Partial<TraceRecord> = {}): Partial<TraceRecord> {
  return { kind: Kind.kernel, tier: Tier.native, device: 0, begin, duration, thread: 1, ...more };
}

function bundle(state: Summary['state'], wall: number, batch: ArrayBuffer): Bundle {
  return { version: 1, profile: 'p', summary: { state, wall_us: wall }, tables: {}, batches: [Buffer.from(batch).toString('base64')] };
}

function beginsIn(store: ProfileStore, key: string): number[] {
  const out: number[] = [];
  store.lane(key).forEach(-Infinity, Infinity, i => out.push(store.columns.begin[i]));
  return out;
}

test('holds no more records than its bound, and keeps the newest and the sums of all', () => {
  const store = new ProfileStore(1000);
  for (let b = 0; b < 50; b++) {
    const rows = Array.from({ length: 100 }, (_, i) => kernel((b * 100 + i) * 10, 5));
    store.receive(message(b), [makeBatch(rows, b, (b + 1) * 1000)]);
  }
  assert.ok(store.columns.length <= 1000 && store.columns.length > 700, `${store.columns.length} records`);
  const begins = beginsIn(store, 'stream:0:0');
  assert.equal(begins.length, store.columns.length);
  assert.equal(begins[begins.length - 1], 49990);
  assert.ok(begins.every((t, i) => i === 0 || t > begins[i - 1]));
  assert.ok(store.forgotten > 0);
  assert.ok(Math.abs(store.overview.between(0, 0, 50_000) - 25_000) < 1e-6);
});

test('records that come late are put in order', () => {
  const store = new ProfileStore();
  store.receive(message(0), [makeBatch([kernel(100, 5), kernel(300, 5)], 0, 400)]);
  assert.deepEqual(beginsIn(store, 'stream:0:0'), [100, 300]);
  store.receive(message(1), [makeBatch([kernel(200, 500), kernel(50, 5), kernel(900, 5)], 1, 1000)]);
  assert.deepEqual(beginsIn(store, 'stream:0:0'), [50, 100, 200, 300, 900]);
  const at650: number[] = [];
  store.lane('stream:0:0').forEach(650, 650, i => at650.push(store.columns.begin[i]));
  assert.deepEqual(at650, [200]);
});

test('a gap in the numbers is kept with its place and size', () => {
  const store = new ProfileStore();
  store.receive(message(0), [makeBatch([kernel(10, 5)], 0, 100)]);
  store.receive(message(1), [makeBatch([kernel(110, 5)], 1, 200)]);
  store.receive(message(5), [makeBatch([kernel(620, 5)], 5, 700)]);
  store.receive(message(6), [makeBatch([], 6, 800)]);
  assert.deepEqual(store.gaps, [{ from: 200, to: 620, count: 3 }]);
  assert.equal(store.now, 800);
});

test('a view that opens late marks what it missed until the bundle fills it', () => {
  const store = new ProfileStore();
  store.receive(message(7), [makeBatch([kernel(710, 5)], 7, 800)]);
  assert.deepEqual(store.gaps, [{ from: 0, to: 710, count: 7 }]);
  store.receive({ type: 'bundle', bundle: bundle('running', 800, makeBatch([kernel(10, 5), kernel(710, 5)], 0, 800)) });
  assert.deepEqual(store.gaps, []);
  assert.deepEqual(beginsIn(store, 'stream:0:0'), [10, 710]);
  store.receive(message(8), [makeBatch([kernel(810, 5)], 8, 900)]);
  assert.deepEqual(beginsIn(store, 'stream:0:0'), [10, 710, 810]);
  assert.deepEqual(store.gaps, []);
});

test('a bundle between live batches takes nothing away and nothing twice', () => {
  const store = new ProfileStore();
  store.load({ ...bundle('running', 0, makeBatch([], 0, 0)), source: 'a\nb' });
  store.receive(message(0), [makeBatch([kernel(10, 5), kernel(20, 5)], 0, 100)]);
  store.receive(message(1), [makeBatch([kernel(110, 5)], 1, 200)]);
  store.load(bundle('running', 150, makeBatch([kernel(10, 15, { count: 2 })], 0, 150)));
  assert.equal(store.now, 200);
  assert.deepEqual(beginsIn(store, 'stream:0:0'), [10, 20, 110]);
  store.load(bundle('done', 250, makeBatch([kernel(10, 105, { count: 3 })], 0, 250)));
  assert.deepEqual(beginsIn(store, 'stream:0:0'), [10, 20, 110]);
  assert.equal(store.summary.state, 'done');
  assert.equal(store.end, 250);
  assert.deepEqual(store.source, ['a', 'b']);
});

test('after a gap the last bundle replaces what is here', () => {
  const store = new ProfileStore();
  store.receive(message(0), [makeBatch([kernel(10, 5)], 0, 100)]);
  store.receive(message(2), [makeBatch([kernel(210, 5)], 2, 300)]);
  store.load(bundle('done', 300, makeBatch([kernel(10, 5), kernel(110, 5), kernel(210, 5)], 0, 300)));
  assert.deepEqual(beginsIn(store, 'stream:0:0'), [10, 110, 210]);
  assert.deepEqual(store.gaps, []);
});

test('a kernel that dies leaves the state cut', () => {
  const store = new ProfileStore();
  store.receive(message(0), [makeBatch([kernel(10, 5)], 0, 100)]);
  store.cutOff();
  assert.equal(store.summary.state, 'cut');
  assert.equal(store.end, 100);
});

test('host-run tiers and waits lie on the host, native and jit on their stream', () => {
  const store = new ProfileStore();
  const rows = [
    kernel(0, 5),
    kernel(10, 5, { tier: Tier.jit, stream: 3 }),
    kernel(20, 5, { tier: Tier.reference, flags: Flag.host }),
    kernel(30, 5, { tier: Tier.cpu }),
    { kind: Kind.sync, begin: 40, duration: 5, thread: 1, device: 0 },
    { kind: Kind.view, begin: 50, thread: 1, device: 0 },
    { kind: Kind.view, begin: 0, thread: 1, device: 0, flags: Flag.snapshot }
  ];
  store.receive(message(0), [makeBatch(rows, 0, 100)]);
  assert.deepEqual(beginsIn(store, 'host:1'), [20, 30, 40, 50]);
  assert.deepEqual(beginsIn(store, 'stream:0:0'), [0]);
  assert.deepEqual(beginsIn(store, 'stream:0:3'), [10]);
});

test('threads share a lane pair until their work overlaps', () => {
  const store = new ProfileStore();
  const host = (begin: number, thread: number) => kernel(begin, 100, { tier: Tier.cpu, thread });
  store.receive(message(0), [makeBatch([host(0, 1), host(100, 2), host(200, 1)], 0, 300)]);
  assert.deepEqual(
    [...store.hostThreads.values()].map(p => p.row),
    [0, 0]
  );
  store.receive(message(1), [makeBatch([host(300, 1), host(350, 2)], 1, 500)]);
  assert.deepEqual(
    [...store.hostThreads.values()].map(p => p.row),
    [0, 1]
  );
});

test('lines of Python are joined from the host records', () => {
  const store = new ProfileStore();
  store.addStrings({ '5': 'aabbccddeeff:3', '6': 'aabbccddeeff:4' });
  const op = (begin: number, duration: number, location: number) => ({ kind: Kind.op, begin, duration, location, thread: 1 });
  store.receive(message(0), [makeBatch([op(0, 10, 5), op(2, 3, 5), op(20, 10, 5), op(40, 10, 6), op(60, 5, 5)], 0, 100)]);
  assert.deepEqual(store.spans.line, [3, 4, 3]);
  assert.deepEqual(store.spans.begin, [0, 40, 60]);
  assert.deepEqual(store.spans.end, [30, 50, 65]);
});

test('a compile that is still running is closed by its finished record', () => {
  const store = new ProfileStore();
  const compile = (begin: number, duration: number) => ({ kind: Kind.compile, begin, duration, name: 9, device: 0 });
  store.receive(message(0), [makeBatch([compile(10, 0)], 0, 100)]);
  assert.equal(store.columns.end[0], 10);
  store.receive(message(1), [makeBatch([compile(10, 190), compile(300, 0)], 1, 400)]);
  assert.equal(store.columns.length, 2);
  assert.equal(store.columns.end[0], 200);
});

test('the live memory curve goes on from the tables and ends on what the summary says', () => {
  const store = new ProfileStore();
  const alloc = (begin: number, bytes: number, buffer: number) => ({ kind: Kind.alloc, begin, bytes, buffer, device: 0 });
  const free = (begin: number, bytes: number, buffer: number) => ({ kind: Kind.free, begin, bytes, buffer, device: 0 });
  const view = { kind: Kind.view, begin: 25, bytes: 100, buffer: 9, parent: 1, device: 0 };
  const old = { ...alloc(0, 5000, 3), flags: Flag.snapshot };
  const rows = [old, alloc(10, 100, 1), alloc(20, 50, 2), view, free(30, 100, 9), free(40, 50, 2)];
  store.receive(message(0, { ...running, memory_bytes: { 'ral:0': 110 } }), [makeBatch(rows, 0, 100)]);
  assert.deepEqual(store.memoryCurve('ral:0'), [
    [10, 100],
    [20, 150],
    [40, 100],
    [100, 110]
  ]);
  const tables = {
    memory_curve: {
      'ral:0': [
        [10, 100],
        [20, 150],
        [120, 210]
      ] as [number, number][]
    }
  };
  store.receive({ ...message(1, { ...running, memory_bytes: { 'ral:0': 160 } }), tables }, [
    makeBatch([alloc(120, 100, 4), free(130, 50, 2)], 1, 200)
  ]);
  assert.deepEqual(store.memoryDevices(), ['ral:0']);
  assert.deepEqual(store.memoryCurve('ral:0'), [
    [10, 100],
    [20, 150],
    [120, 210],
    [130, 160]
  ]);
});

test('a batch with merged records moves the live memory curve by its summary alone', () => {
  const store = new ProfileStore();
  const alloc = { kind: Kind.alloc, begin: 10, bytes: 1000, buffer: 1, device: 0 };
  const frees = { kind: Kind.free, begin: 20, bytes: 5000, buffer: 0, device: 0, count: 5 };
  store.receive(message(0, { ...running, memory_bytes: { 'ral:0': 300 } }), [makeBatch([alloc, frees], 0, 100)]);
  assert.deepEqual(store.memoryCurve('ral:0'), [[100, 300]]);
});

test('at the end a bundle of the whole cell replaces the last part of a long one', () => {
  const store = new ProfileStore(100);
  for (let b = 0; b < 10; b++) {
    const rows = Array.from({ length: 50 }, (_, i) => kernel((b * 50 + i) * 10, 5));
    store.receive(message(b), [makeBatch(rows, b, (b + 1) * 500)]);
  }
  store.load(bundle('running', 5000, makeBatch([kernel(0, 4995, { count: 500 })], 0, 5000)));
  assert.ok(store.forgotten > 0 && beginsIn(store, 'stream:0:0').length > 50);
  store.load(bundle('done', 5000, makeBatch([kernel(0, 4995, { count: 500 })], 0, 5000)));
  assert.deepEqual(beginsIn(store, 'stream:0:0'), [0]);
  assert.equal(store.forgotten, 0);
});
