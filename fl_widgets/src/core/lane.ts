/** One lane's records in order of begin, and the walk over those that a view shows. */
import { CHANNEL_COUNT, channelOf, isOpen, weightOf } from './channels';
import type { Columns } from './columns';

const BLOCK = 64;

/** What is known of a run of records without looking at each. */
interface Block {
  begin: number;
  /** Infinity where a record of it is still open. */
  end: number;
  /** Time by channel. */
  sums: Float64Array;
}

export class Lane {
  private ids = new Uint32Array(64);
  private n = 0;
  private sortFrom = 0; // entries before it are sorted and counted in their blocks
  private blocks: Block[] = [];

  constructor(
    readonly key: string,
    private readonly columns: Columns
  ) {}

  get length(): number {
    return this.n;
  }

  push(id: number): void {
    if (this.n >= this.ids.length) {
      const larger = new Uint32Array(this.ids.length * 2);
      larger.set(this.ids);
      this.ids = larger;
    }
    this.ids[this.n++] = id;
  }

  /** A record's end moved (an open compile closed): its block is counted again. */
  touch(): void {
    this.sortFrom = 0;
  }

  /** Forgets records older than `base`. */
  dropBefore(base: number): void {
    let kept = 0;
    for (let i = 0; i < this.n; i++) {
      if (this.ids[i] >= base) {
        this.ids[kept++] = this.ids[i];
      }
    }
    this.n = kept;
    this.sortFrom = 0;
    this.blocks = [];
  }

  /**
   * Calls `visit` with each record (index in the columns) that overlaps [t0, t1], by begin.
   * `takeBlock` is asked first for a whole run of records; where it returns true they are not visited.
   */
  forEach(
    t0: number,
    t1: number,
    visit: (index: number) => void,
    takeBlock?: (begin: number, end: number, sums: Float64Array) => boolean
  ): void {
    this.prepare();
    const { columns, ids, blocks } = this;
    const { begin, end, base } = columns;
    const last = this.upperBound(t1);
    for (let at = 0, block = 0; at < last; at += BLOCK, block++) {
      const known = blocks[block];
      const stop = Math.min(last, at + BLOCK);
      if (known.end < t0 || (takeBlock && stop === Math.min(this.n, at + BLOCK) && takeBlock(known.begin, known.end, known.sums))) {
        continue;
      }
      for (let i = at; i < stop; i++) {
        const index = ids[i] - base;
        if (begin[index] <= t1 && (end[index] >= t0 || isOpen(columns, index))) {
          visit(index);
        }
      }
    }
  }

  /** Id of the record `step` places from `id` in this lane; undefined past the ends or if absent. */
  neighbour(id: number, step: number): number | undefined {
    this.prepare();
    const at = this.ids.subarray(0, this.n).indexOf(id);
    const to = at + step;
    return at < 0 || to < 0 || to >= this.n ? undefined : this.ids[to];
  }

  /** Id of the record that runs at `t`, else of the one nearest to it. */
  nearest(t: number): number | undefined {
    this.prepare();
    if (this.n === 0) {
      return undefined;
    }
    const at = Math.max(0, this.upperBound(t) - 1);
    const next = Math.min(this.n - 1, at + 1);
    const { begin, end, base } = this.columns;
    const before = Math.max(0, t - end[this.ids[at] - base]);
    const after = Math.max(0, begin[this.ids[next] - base] - t);
    return before <= after ? this.ids[at] : this.ids[next];
  }

  private upperBound(t: number): number {
    const { begin, base } = this.columns;
    let low = 0;
    let high = this.n;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (begin[this.ids[mid] - base] <= t) {
        low = mid + 1;
      } else {
        high = mid;
      }
    }
    return low;
  }

  /** Sorts what came since the last walk into place and counts its blocks. */
  private prepare(): void {
    if (this.sortFrom === this.n) {
      return;
    }
    const { begin, base } = this.columns;
    let least = Infinity;
    let ordered = true;
    for (let i = this.sortFrom; i < this.n; i++) {
      const b = begin[this.ids[i] - base];
      ordered &&= i === 0 || begin[this.ids[i - 1] - base] <= b;
      least = Math.min(least, b);
    }
    let from = this.sortFrom;
    if (!ordered) {
      while (from > 0 && begin[this.ids[from - 1] - base] > least) {
        from--;
      }
      this.ids.subarray(from, this.n).sort((a, b) => begin[a - base] - begin[b - base] || a - b);
    }
    for (let block = Math.floor(from / BLOCK); block * BLOCK < this.n; block++) {
      this.blocks[block] = this.count(block * BLOCK, Math.min(this.n, (block + 1) * BLOCK));
    }
    this.sortFrom = this.n;
  }
  private count(from: number, to: number): Block {
    const { columns } = this;
    const sums = new Float64Array(CHANNEL_COUNT);
    let most = -Infinity;
    for (let i = from; i < to; i++) {
      const index = this.ids[i] - columns.base;
      const end = isOpen(columns, index) ? Infinity : columns.end[index];
      const channel = channelOf(columns, index);
      sums[channel] += weightOf(channel, columns.end[index] - columns.begin[index]);
      most = Math.max(most, end);
    }
    return { begin: columns.begin[this.ids[from] - columns.base], end: most, sums };
  }
}
