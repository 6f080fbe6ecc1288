/** What a search finds, the ways between records, and the measured span. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TraceRecord } from '../../fl_widgets/src/core/batch';
import { Kind, Tier } from '../../fl_widgets/src/core/kinds';
import { acrossLanes, consumer, inLane, producer } from '../../fl_widgets/src/core/navigate';
import { Ruler } from '../../fl_widgets/src/core/ruler';
import { Search } from '../../fl_widgets/src/core/search';
import { ProfileStore } from '../../fl_widgets/src/core/store';
import type { BufferRow } from '../../fl_widgets/src/core/types';
import { makeBatch } from './make_batch';

const STRINGS = {
  1: 'aten::conv2d',
  2: 'aten::relu',
  3: 'ral_Conv_kernel',
  4: 'main',
  5: 'aten::add'
};

function kernel(begin: number, name: number, more: Partial<TraceRecord> = {}): Partial<TraceRecord> {
  return {
    kind: Kind.kernel,
    tier: Tier.native,
    device: 0,
    begin,
    duration: 5,
    thread: 4,
    name,
    ...more
  };
}

function buffer(id: number, label: string): BufferRow {
  return { id, label, device: 'ral:0', bytes: 4, begin_us: 0, end_us: null };
}

function filled(rows: Partial<TraceRecord>[], buffers: BufferRow[] = []): ProfileStore {
  const store = new ProfileStore();
  const summary = { state: 'running' as const, wall_us: 0 };
  store.receive(
    {
      type: 'batch',
      version: 1,
      number: 0,
      sent_ms: 0,
      summary,
      strings: STRINGS,
      tables: { buffers }
    },
    [makeBatch(rows, 0, 1000)]
  );
  return store;
}

function begins(store: ProfileStore, text: string): number[] {
  return new Search(store, text).all().map(id => store.columns.begin[id - store.columns.base]);
}

test('finds by op and by kernel, in any case, in the order of time', () => {
  const store = filled([kernel(30, 2), kernel(10, 1), kernel(20, 2, { kernel: 3 })]);
  assert.deepEqual(begins(store, 'CONV'), [10, 20]);
  assert.deepEqual(begins(store, ' relu '), [20, 30]);
  assert.deepEqual(begins(store, 'softmax'), []);
});

test('finds what wrote or read a tensor, by its label', () => {
  const rows = [kernel(10, 1, { buffer: 7 }), kernel(20, 2, { parent: 7, buffer: 8 }), kernel(30, 2, { parent: 8 })];
  const store = filled(rows, [buffer(7, 'net.0.weight'), buffer(8, 'relu.0 line 3')]);
  assert.deepEqual(begins(store, 'net.0'), [10, 20]);
  assert.deepEqual(begins(store, 'line 3'), [20, 30]);
});

test('a label that comes later is found, and records without work are not', () => {
  const store = filled([kernel(10, 1, { buffer: 7 }), kernel(12, 2, { kind: Kind.alloc, buffer: 9 })]);
  const search = new Search(store, 'weight');
  assert.deepEqual(search.all(), []);
  const summary = { state: 'running' as const, wall_us: 0 };
  const tables = { buffers: [buffer(7, 'weight'), buffer(9, 'weight.grad')] };
  store.receive({ type: 'batch', version: 1, number: 1, sent_ms: 0, summary, tables }, [makeBatch([], 1, 1000)]);
  assert.deepEqual(search.all(), [store.columns.base]);
});

test('a text that comes later is found', () => {
  const store = filled([kernel(10, 6)]);
  const search = new Search(store, 'gelu');
  assert.deepEqual(search.all(), []);
  store.addStrings({ 6: 'aten::gelu' });
  assert.deepEqual(search.all(), [store.columns.base]);
});

test('along a lane, across lanes, to the producer and the consumer', () => {
  const rows = [
    kernel(10, 1, { buffer: 7 }),
    kernel(20, 2, { parent: 7, buffer: 8 }),
    kernel(22, 5, { stream: 1, parent: 7, buffer: 9 }),
    kernel(30, 5, { parent: 8 })
  ];
  const store = filled(rows);
  const at = (id: number | undefined) => (id === undefined ? undefined : store.columns.begin[id - store.columns.base]);
  const [first, second] = [store.columns.base, store.columns.base + 1];
  assert.equal(at(inLane(store, first, 1)), 20);
  assert.equal(at(inLane(store, second, 1)), 30);
  assert.equal(inLane(store, first, -1), undefined);
  const lanes = ['stream:0:0', 'stream:0:1'].map((key, i) => ({
    key,
    lanes: [store.lane(key)],
    top: 30 * i,
    height: 26
  }));
  const layout = lanes as unknown as Parameters<typeof acrossLanes>[1];
  assert.equal(at(acrossLanes(store, layout, second, 1, 0)), 22);
  assert.equal(at(acrossLanes(store, layout, null, 1, 29)), 30);
  assert.equal(at(producer(store, 8)), 20);
  assert.equal(producer(store, 0), undefined);
  assert.equal(producer(store, 77), undefined);
  assert.equal(at(consumer(store, first)), 20);
  assert.equal(consumer(store, store.columns.base + 3), undefined);
});

test('the measured span begins at what is given, and its end moves within the profile', () => {
  const ruler = new Ruler();
  assert.equal(ruler.move(1, 100, 1000, false), '');
  ruler.begin(10, 20);
  assert.deepEqual(ruler.span, [10, 20]);
  ruler.move(1, 100, 1000, false);
  assert.deepEqual(ruler.span, [10, 22]);
  ruler.move(-1, 100, 1000, true);
  assert.ok(Math.abs((ruler.span ?? [0, 0])[1] - 21.8) < 1e-9);
  ruler.move(-100, 100, 1000, false);
  assert.deepEqual(ruler.span, [10, 0]);
  ruler.move(1000, 100, 1000, false);
  assert.deepEqual(ruler.span, [10, 1000]);
  ruler.clear();
  assert.equal(ruler.span, null);
  assert.equal(ruler.moving, false);
});
