/** What a record is drawn as: one of the four tiers (0 to 3), a copy, a wait, a compile or a view. */
import type { Columns } from './columns';
import { Kind, Tier, tierIndex } from './kinds';

export const Channel = { copy: 4, wait: 5, compile: 6, view: 7 } as const;
export const CHANNEL_COUNT = 8;

export function channelOf(columns: Columns, index: number): number {
  switch (columns.kind[index]) {
    case Kind.copy:
      return Channel.copy;
    case Kind.sync:
      return Channel.wait;
    case Kind.compile:
      return Channel.compile;
    case Kind.view:
      return Channel.view;
    default:
      return columns.tier[index] === Tier.view ? Channel.view : Math.max(0, tierIndex(columns.tier[index]));
  }
}

/** A compile that was announced at its begin and has not ended. */
export function isOpen(columns: Columns, index: number): boolean {
  return columns.kind[index] === Kind.compile && columns.end[index] <= columns.begin[index];
}

/** End of a record on the timeline: an open compile lasts until now. */
export function endOf(columns: Columns, index: number, now: number): number {
  return isOpen(columns, index) ? Math.max(now, columns.begin[index]) : columns.end[index];
}

/** How much a record counts in a pixel column; a view or an instant has no time, but must not vanish. */
export function weightOf(channel: number, duration: number): number {
  return Math.max(duration, channel === Channel.view ? 1e-9 : 1e-6);
}
