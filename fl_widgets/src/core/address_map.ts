/** Places buffers by first fit, so that bars of buffers alive at once do not overlap; a view lies inside its parent. */
import type { BufferRow } from './types';

export interface PlacedBuffer {
  row: BufferRow;
  /** Address in bytes from the lowest. */
  address: number;
  begin: number;
  end: number;
  parent: PlacedBuffer | null;
}

/** The buffers of one device with addresses; `end` stands for those still alive. */
export function placeBuffers(rows: readonly BufferRow[], end: number): PlacedBuffer[] {
  const placed = new Map<number, PlacedBuffer>();
  const own = rows.filter(r => !r.view).sort((a, b) => a.begin_us - b.begin_us || b.bytes - a.bytes);
  const alive: PlacedBuffer[] = [];
  for (const row of own) {
    for (let i = alive.length - 1; i >= 0; i--) {
      if (alive[i].end <= row.begin_us) {
        alive.splice(i, 1);
      }
    }
    alive.sort((a, b) => a.address - b.address);
    let address = 0;
    for (const other of alive) {
      if (other.address - address >= row.bytes) {
        break;
      }
      address = Math.max(address, other.address + other.row.bytes);
    }
    const buffer = { row, address, begin: row.begin_us, end: row.end_us ?? end, parent: null };
    alive.push(buffer);
    placed.set(row.id, buffer);
  }
  const views = rows
    .filter(r => r.view)
    .map(row => ({ row, parent: rootOf(row, rows, placed) }))
    .filter((v): v is { row: BufferRow; parent: PlacedBuffer } => v.parent !== null)
    .map(({ row, parent }) => ({
      row,
      address: parent.address,
      begin: Math.max(row.begin_us, parent.begin),
      end: Math.min(row.end_us ?? end, parent.end),
      parent
    }));
  return [...placed.values(), ...views];
}

/** A view of a view lies inside the block that holds both. */
function rootOf(row: BufferRow, rows: readonly BufferRow[], placed: Map<number, PlacedBuffer>): PlacedBuffer | null {
  let id = row.parent ?? null;
  for (let depth = 0; id !== null && depth < 16; depth++) {
    const found = placed.get(id);
    if (found) {
      return found;
    }
    id = rows.find(r => r.id === id)?.parent ?? null;
  }
  return null;
}
