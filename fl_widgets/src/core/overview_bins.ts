/** Sums of the whole cell by time, in a fixed number of bins whose width doubles as the cell grows. */

/** Channels of a bin: the four tiers in order, then copies. */
export const CHANNELS = 5;
export const COPY_CHANNEL = 4;

export class OverviewBins {
  readonly bins = 1024;
  width = 50; // microseconds; 51 ms at first
  private readonly sums = Array.from({ length: CHANNELS }, () => new Float64Array(this.bins));

  clear(): void {
    this.width = 50;
    this.sums.forEach(s => s.fill(0));
  }

  /** Adds the time of one record to a channel. */
  add(channel: number, begin: number, end: number): void {
    const from = Math.max(0, begin);
    if (!(end >= from)) {
      return;
    }
    while (end >= this.bins * this.width) {
      this.fold();
    }
    const sums = this.sums[channel];
    for (let i = Math.floor(from / this.width); i <= Math.floor(end / this.width); i++) {
      sums[i] += Math.max(0, Math.min(end, (i + 1) * this.width) - Math.max(from, i * this.width));
    }
  }

  /** Microseconds of `channel` between `a` and `b`, each bin counted in proportion. */
  between(channel: number, a: number, b: number): number {
    const sums = this.sums[channel];
    let total = 0;
    const last = Math.min(this.bins - 1, Math.floor(b / this.width));
    for (let i = Math.max(0, Math.floor(a / this.width)); i <= last; i++) {
      const share = Math.min(b, (i + 1) * this.width) - Math.max(a, i * this.width);
      total += (sums[i] * share) / this.width;
    }
    return total;
  }

  private fold(): void {
    for (const sums of this.sums) {
      for (let i = 0; i < this.bins / 2; i++) {
        sums[i] = sums[2 * i] + sums[2 * i + 1];
      }
      sums.fill(0, this.bins / 2);
    }
    this.width *= 2;
  }
}
