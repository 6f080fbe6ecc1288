/** Where Python was: spans of time on one line of the cell, joined from the host's records. */

const MAX_SPANS = 200_000;

export class LineSpans {
  begin: number[] = [];
  end: number[] = [];
  line: number[] = [];

  get length(): number {
    return this.line.length;
  }

  clear(): void {
    this.begin = [];
    this.end = [];
    this.line = [];
  }

  /** Adds host work on `line`; records come nearly in order of begin, late ones only fill holes. */
  add(begin: number, end: number, line: number): void {
    const last = this.line.length - 1;
    if (line <= 0 || end < begin) {
      return;
    }
    if (last < 0 || begin >= this.begin[last]) {
      if (last >= 0 && this.line[last] === line) {
        this.end[last] = Math.max(this.end[last], end);
        return;
      }
      if (last >= 0 && this.end[last] > begin) {
        this.end[last] = begin;
      }
      if (this.line.length >= MAX_SPANS) {
        [this.begin, this.end, this.line].forEach(a => a.splice(0, MAX_SPANS / 4));
      }
      this.begin.push(begin);
      this.end.push(end);
      this.line.push(line);
      return;
    }
    const at = this.indexAt(begin);
    if (at >= 0 && this.line[at] === line) {
      this.end[at] = Math.max(this.end[at], Math.min(end, this.begin[at + 1] ?? end));
    }
  }

  /** Index of the last span that begins at or before `t`; -1 before the first. */
  indexAt(t: number): number {
    let low = 0;
    let high = this.begin.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (this.begin[mid] <= t) {
        low = mid + 1;
      } else {
        high = mid;
      }
    }
    return low - 1;
  }
}
