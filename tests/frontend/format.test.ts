/** Numbers read as the visual language says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  axis,
  formatBytes,
  formatBytesOf,
  formatMoment,
  formatRate,
  formatScale,
  formatShare,
  formatTime,
  plural,
  scaleTop,
  thousands
} from '../../fl_widgets/src/core/format';

test('times have three significant figures', () => {
  const cases: [number, string][] = [
    [0, 'none'],
    [-1, 'none'],
    [0.25, '250 ns'],
    [1, '1.00 µs'],
    [600, '600 µs'],
    [999.4, '999 µs'],
    [999.6, '1.00 ms'],
    [7130, '7.13 ms'],
    [67_400, '67.4 ms'],
    [247_000, '247 ms'],
    [1_440_000, '1.44 s'],
    [67_400_000, '67.4 s']
  ];
  cases.forEach(([us, text]) => assert.equal(formatTime(us), text));
  assert.equal(formatMoment(194_360), '194.360 ms');
});

test('bytes are powers of 1024 with two decimals under 10 MiB', () => {
  const cases: [number, string][] = [
    [0, 'none'],
    [512, '512 B'],
    [2624, '2.6 KiB'],
    [784 * 1024, '784 KiB'],
    [3.0625 * 2 ** 20, '3.06 MiB'],
    [20.9 * 2 ** 20, '20.9 MiB'],
    [1.25 * 2 ** 30, '1.25 GiB'],
    [31 * 2 ** 30, '31.0 GiB']
  ];
  cases.forEach(([bytes, text]) => assert.equal(formatBytes(bytes), text));
  assert.equal(formatRate(5.36 * 2 ** 20, 7130), '0.79 GB/s');
  assert.equal(formatRate(100, 10_000), '< 0.01 GB/s');
  assert.equal(formatRate(0, 10), '');
  assert.equal(formatBytesOf(1.2 * 2 ** 30, 31 * 2 ** 30), '1.20 of 31.0 GiB');
  assert.equal(formatBytesOf(196 * 1024, 31 * 2 ** 30), '196 KiB of 31.0 GiB');
});

test('shares, thousands and counts', () => {
  assert.equal(formatShare(0.55), '55 %');
  assert.equal(formatShare(0.027), '2.7 %');
  assert.equal(formatShare(0.0005), '< 0.1 %');
  assert.equal(formatShare(0), '0 %');
  assert.equal(thousands(1641), '1\u2009641');
  assert.equal(thousands(1234567), '1\u2009234\u2009567');
  assert.equal(plural(1, 'chain'), '1 chain');
  assert.equal(plural(1240, 'op'), '1\u2009240 ops');
});

test('an axis has one unit and round steps', () => {
  const wide = axis(150_000, 215_000, 7);
  assert.deepEqual(wide.ticks.map(wide.label), ['150 ms', '160 ms', '170 ms', '180 ms', '190 ms', '200 ms', '210 ms']);
  const near = axis(10, 30, 5);
  assert.deepEqual(near.ticks.map(near.label), ['10 µs', '15 µs', '20 µs', '25 µs', '30 µs']);
  const long = axis(0, 12e6, 6);
  assert.deepEqual(long.ticks.map(long.label), ['0 s', '2 s', '4 s', '6 s', '8 s', '10 s', '12 s']);
  const fine = axis(1_000_000, 1_000_500, 5);
  assert.equal(fine.label(fine.ticks[1]), '1000.1 ms');
});

test('a scale ends on a round number at or above the peak', () => {
  assert.equal(formatScale(scaleTop(20.9 * 2 ** 20)), '24 MiB');
  assert.equal(formatScale(scaleTop(2 ** 20)), '1 MiB');
  assert.equal(formatScale(scaleTop(0)), '1 KiB');
  assert.equal(formatScale(0), '0');
});
