/** Records kept column by column in typed arrays, bounded: when full, the oldest quarter goes. */
import type { TraceRecord } from './batch';

const FLOATS = ['begin', 'end', 'bytes', 'copied'] as const;
const WORDS = [
  'name',
  'kernel',
  'reason',
  'location',
  'inner',
  'forward',
  'shapes',
  'buffer',
  'parent',
  'correlation',
  'thread',
  'count'
] as const;

const FIRST_CAPACITY = 4096;

/** A record's id counts all records ever appended; `base` is the oldest id still here. */
export class Columns {
  base = 0;
  length = 0;
  begin = new Float64Array(0);
  end = new Float64Array(0);
  bytes = new Float64Array(0);
  copied = new Float64Array(0);
  name = new Uint32Array(0);
  kernel = new Uint32Array(0);
  reason = new Uint32Array(0);
  location = new Uint32Array(0);
  inner = new Uint32Array(0);
  forward = new Uint32Array(0);
  shapes = new Uint32Array(0);
  buffer = new Uint32Array(0);
  parent = new Uint32Array(0);
  correlation = new Uint32Array(0);
  thread = new Uint32Array(0);
  count = new Uint32Array(0);
  device = new Int16Array(0);
  stream = new Uint16Array(0);
  flags = new Uint16Array(0);
  kind = new Uint8Array(0);
  tier = new Uint8Array(0);

  constructor(readonly capacity: number) {}

  /** Appends a record and returns its id. `dropped()` is called when the oldest had to go. */
  append(r: TraceRecord, dropped: () => void): number {
    if (this.length >= this.capacity) {
      this.dropFront(Math.max(1, this.capacity >> 2));
      dropped();
    }
    if (this.length >= this.begin.length) {
      this.grow(Math.min(this.capacity, Math.max(FIRST_CAPACITY, this.begin.length * 2)));
    }
    const i = this.length++;
    this.begin[i] = r.begin;
    this.end[i] = r.begin + r.duration;
    this.bytes[i] = r.bytes;
    this.copied[i] = r.copied;
    for (const key of WORDS) {
      this[key][i] = r[key];
    }
    this.device[i] = r.device;
    this.stream[i] = r.stream;
    this.flags[i] = r.flags;
    this.kind[i] = r.kind;
    this.tier[i] = r.tier;
    return this.base + i;
  }

  has(id: number): boolean {
    return id >= this.base && id < this.base + this.length;
  }

  clear(): void {
    this.base += this.length;
    this.length = 0;
  }

  private arrays(): (Float64Array | Uint32Array | Int16Array | Uint16Array | Uint8Array)[] {
    return [...FLOATS.map(k => this[k]), ...WORDS.map(k => this[k]), this.device, this.stream, this.flags, this.kind, this.tier];
  }

  private dropFront(n: number): void {
    for (const a of this.arrays()) {
      a.copyWithin(0, n, this.length);
    }
    this.base += n;
    this.length -= n;
  }

  private grow(n: number): void {
    const f64 = (a: Float64Array) => larger(new Float64Array(n), a);
    const u32 = (a: Uint32Array) => larger(new Uint32Array(n), a);
    for (const key of FLOATS) {
      this[key] = f64(this[key]);
    }
    for (const key of WORDS) {
      this[key] = u32(this[key]);
    }
    this.device = larger(new Int16Array(n), this.device);
    this.stream = larger(new Uint16Array(n), this.stream);
    this.flags = larger(new Uint16Array(n), this.flags);
    this.kind = larger(new Uint8Array(n), this.kind);
    this.tier = larger(new Uint8Array(n), this.tier);
  }
}

function larger<T extends { set(a: ArrayLike<number>): void }>(into: T, from: ArrayLike<number>): T {
  into.set(from);
  return into;
}
