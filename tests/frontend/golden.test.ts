/** The reader decodes the golden file exactly as docs/profile-format.md says. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { Batch, BatchError, fromBase64 } from '../../fl_widgets/src/core/batch';
import { ProfileStore } from '../../fl_widgets/src/core/store';
import type { Bundle } from '../../fl_widgets/src/core/types';

interface Golden {
  bundle: Bundle;
  expected: { batches: { header: Record<string, number>; records: Record<string, number>[] }[] };
}

const root = process.env.TORCH_FL_ROOT ?? '.';
const golden = JSON.parse(readFileSync(path.join(root, 'tests/golden/profile_v1.json'), 'utf8')) as Golden;
const bytesOf = (i: number) => fromBase64(golden.bundle.batches![i]);

test('every field of every golden record and header', () => {
  assert.equal(golden.expected.batches.length, 2);
  golden.expected.batches.forEach((expected, i) => {
    const batch = new Batch(bytesOf(i));
    assert.deepEqual({ ...batch.header }, expected.header);
    assert.equal(batch.length, expected.records.length);
    expected.records.forEach((record, at) => assert.deepEqual({ ...batch.read(at) }, record));
  });
});

test('a batch inside a larger buffer, as comms deliver it', () => {
  const bytes = bytesOf(0);
  const larger = new Uint8Array(bytes.length + 13);
  larger.set(bytes, 5);
  const batch = new Batch(new DataView(larger.buffer, 5, bytes.length));
  assert.deepEqual({ ...batch.read(4) }, golden.expected.batches[0].records[4]);
});

test('longer records of a later writer are read by their own stride', () => {
  const bytes = bytesOf(0);
  const records = new DataView(bytes.buffer).getUint32(8, true);
  const wider = new Uint8Array(64 + records * 96);
  wider.set(bytes.subarray(0, 64));
  new DataView(wider.buffer).setUint16(6, 96, true);
  for (let i = 0; i < records; i++) {
    wider.set(bytes.subarray(64 + i * 88, 64 + (i + 1) * 88), 64 + i * 96);
  }
  assert.deepEqual({ ...new Batch(wider).read(records - 1) }, golden.expected.batches[0].records[records - 1]);
});

test('bytes that are no batch are refused with a sentence', () => {
  const bytes = bytesOf(0);
  const newer = bytes.slice();
  new DataView(newer.buffer).setUint16(4, 2, true);
  assert.throws(() => new Batch(bytes.subarray(0, 40)), BatchError);
  assert.throws(() => new Batch(bytes.subarray(0, 200)), /7 records do not fit in 200 bytes/);
  assert.throws(() => new Batch(new Uint8Array(64)), /not a batch: magic 0x0/);
  assert.throws(() => new Batch(newer), /has version 2; this reader knows version 1/);
});

test('the store shows the golden bundle', () => {
  const store = new ProfileStore();
  store.load(golden.bundle);
  const c = store.columns;
  // 13 records, but the finished compile closes the open one.
  assert.equal(c.length, 12);
  assert.equal(store.text(c.name[4]), 'convolution');
  assert.equal(store.line(c.location[4]), 2);
  assert.equal(store.line(c.inner[4]), 7);
  assert.equal(store.sourceLine(2), 'loss = F.cross_entropy(net(x), y)');
  assert.deepEqual([...store.lanes.keys()].sort(), ['compile:0', 'copy:0', 'host:1', 'host:2', 'stream:0:65535', 'stream:1:0']);
  assert.deepEqual(store.ranges, [{ name: 'epoch 0 – übung', begin: 0.5, end: 9000.75 }]);
  const compile: [number, number][] = [];
  store.lane('compile:0').forEach(0, 1e9, i => compile.push([c.begin[i], c.end[i]]));
  assert.deepEqual(compile, [[120, 20620]]);
  assert.equal(store.summary.failed_line, 3);
  assert.equal(store.end, 22000);
});

test('a newer bundle is refused with a sentence', () => {
  const store = new ProfileStore();
  store.load({ ...golden.bundle, version: 2 });
  assert.match(store.refusal ?? '', /version 2; this viewer knows version 1/);
  assert.equal(store.columns.length, 0);
});
