/** Order of table rows: by the chosen column, but steady while the cell runs, so that nothing jumps under the eye. */

export type SortKey = string;

export class TableOrder<Row> {
  private known: string[] = [];

  constructor(
    private readonly keyOf: (row: Row) => string,
    private readonly compare: (a: Row, b: Row, key: SortKey) => number,
    public sortKey: SortKey
  ) {}

  /** Sorted rows; while `running`, rows seen before keep their places and new ones come last. */
  apply(rows: readonly Row[], running: boolean): Row[] {
    const sorted = [...rows].sort((a, b) => this.compare(a, b, this.sortKey));
    if (running) {
      const place = new Map(this.known.map((key, i) => [key, i]));
      const at = (row: Row) => place.get(this.keyOf(row)) ?? place.size;
      sorted.sort((a, b) => at(a) - at(b));
    }
    this.known = sorted.map(this.keyOf);
    return sorted;
  }

  /** Sorts anew by `key` at the next call. */
  sortBy(key: SortKey): void {
    this.sortKey = key;
    this.known = [];
  }
}
