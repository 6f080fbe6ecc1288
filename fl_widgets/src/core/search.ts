/** "Find op or tensor": which records a text finds, and the way from one to the next. */
import { Kind } from './kinds';
import type { ProfileStore } from './store';
import type { BufferRow } from './types';

const DRAWN = new Set<number>([Kind.kernel, Kind.copy, Kind.sync, Kind.compile]);

/**
 * One search. A record is found by the name of its op or kernel, or by the label of a tensor (`conv2d.0 line 10`) that it
 * wrote or read; upper and lower case are the same. Strings and labels are looked at once each.
 */
export class Search {
  private readonly wanted: string;
  private readonly strings = new Map<number, boolean>();
  private rows: BufferRow[] | undefined;
  private buffers = new Set<number>();

  constructor(
    private readonly store: ProfileStore,
    readonly text: string
  ) {
    this.wanted = text.trim().toLowerCase();
  }

  /** True where the record at `index` is found. */
  has(index: number): boolean {
    const c = this.store.columns;
    if (!DRAWN.has(c.kind[index])) {
      return false;
    }
    if (this.string(c.name[index]) || this.string(c.kernel[index])) {
      return true;
    }
    this.readLabels();
    return this.buffers.size > 0 && (this.buffers.has(c.buffer[index]) || this.buffers.has(c.parent[index]));
  }

  /** Ids of all records found, in the order of their begin. */
  all(): number[] {
    const c = this.store.columns;
    const found: number[] = [];
    for (let i = 0; i < c.length; i++) {
      if (this.has(i)) {
        found.push(c.base + i);
      }
    }
    return found.sort((a, b) => c.begin[a - c.base] - c.begin[b - c.base]);
  }

  private string(id: number): boolean {
    let found = this.strings.get(id);
    if (found === undefined && this.store.knows(id)) {
      found = this.store.text(id).toLowerCase().includes(this.wanted);
      this.strings.set(id, found);
    }
    return found ?? false;
  }

  private readLabels(): void {
    const rows = this.store.tables.buffers;
    if (rows !== this.rows) {
      this.rows = rows;
      const found = (rows ?? []).filter(r => r.label.toLowerCase().includes(this.wanted));
      this.buffers = new Set(found.map(r => r.id % 2 ** 32));
    }
  }
}
