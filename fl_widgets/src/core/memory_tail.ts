/**
 * Device memory since the last tables. Tables come at most four times a second, so the end of a live
 * curve is made from the records of blocks born and freed, and set right by each batch's summary.
 */
import type { TraceRecord } from './batch';
import { Flag, Kind } from './kinds';

const MAX_POINTS = 4000;
const MAX_VIEWS = 200_000;

type Point = [t: number, bytes: number];

export class MemoryTail {
  private readonly points = new Map<string, Point[]>();
  private readonly level = new Map<string, number>();
  private readonly views = new Set<number>();

  clear(): void {
    this.points.clear();
    this.level.clear();
    this.views.clear();
  }

  /** Takes in a record; a view holds no bytes of its own, so its death frees none. */
  add(r: TraceRecord): void {
    if (r.kind === Kind.view) {
      if (this.views.size < MAX_VIEWS) {
        this.views.add(r.buffer);
      }
      return;
    }
    const sign =
      r.kind === Kind.alloc && (r.flags & Flag.snapshot) === 0 ? 1 : r.kind === Kind.free && !this.views.delete(r.buffer) ? -1 : 0;
    if (sign !== 0 && r.device >= 0) {
      const device = `ral:${r.device}`;
      this.set(device, r.begin, (this.level.get(device) ?? 0) + sign * r.bytes);
    }
  }

  /** The bytes that a device holds for certain at `t`. */
  set(device: string, t: number, bytes: number): void {
    const points = this.points.get(device) ?? [];
    const last = points[points.length - 1];
    const level = Math.max(0, bytes);
    this.level.set(device, level);
    if (last?.[1] === level) {
      return;
    }
    points.push([Math.max(t, last?.[0] ?? 0), level]);
    this.points.set(device, points.length > MAX_POINTS ? points.slice(-MAX_POINTS / 2) : points);
  }

  /** The table's curve, and after its last point what is known since. */
  extend(device: string, curve: readonly Point[]): Point[] {
    const from = curve.length > 0 ? curve[curve.length - 1][0] : -Infinity;
    return [...curve, ...(this.points.get(device) ?? []).filter(p => p[0] > from)];
  }

  /** Forgets what the tables now hold. */
  dropBefore(device: string, t: number): void {
    const points = this.points.get(device);
    if (points) {
      this.points.set(
        device,
        points.filter(p => p[0] > t)
      );
    }
  }

  devices(): string[] {
    return [...this.points.keys()];
  }
}
