/** What of a timeline lies where: from a point in pixels to a zone, a time, a lane, a record. */
import { Channel, channelOf, endOf } from './channels';
import { AXIS_TOP, GUTTER, OVERVIEW_HEIGHT, OVERVIEW_TOP, RIGHT_PAD, type Row, type TimelineLayout } from './layout';
import type { ProfileStore } from './store';
import type { Viewport } from './viewport';

export type Zone = 'overview' | 'axis' | 'lanes';

export class Hit {
  layout: TimelineLayout = { rows: [], height: 200 };
  width = 880;

  constructor(
    private readonly store: ProfileStore,
    private readonly viewport: Viewport
  ) {}

  /** Width of the lanes themselves. */
  get inner(): number {
    return this.width - GUTTER - RIGHT_PAD;
  }

  timeAt(x: number): number {
    return this.viewport.a + ((x - GUTTER) / this.inner) * this.viewport.span;
  }

  overviewTime(x: number): number {
    return ((x - GUTTER) / this.inner) * this.store.end;
  }

  zoneAt(y: number): Zone {
    return y < OVERVIEW_TOP + OVERVIEW_HEIGHT + 3 ? 'overview' : y < AXIS_TOP + 18 ? 'axis' : 'lanes';
  }

  /** Id of the record drawn at a point; among records under a pixel the longest. */
  recordAt(x: number, y: number): number | null {
    const row = this.rowAt(y);
    if (!row || x < GUTTER) {
      return null;
    }
    const c = this.store.columns;
    const perPixel = this.viewport.span / this.inner;
    const t = this.timeAt(x);
    let best: number | null = null;
    let bestTime = -1;
    for (const lane of row.lanes) {
      lane.forEach(t - perPixel, t + perPixel, i => {
        const ticks = channelOf(c, i) === Channel.view ? -0.5 : endOf(c, i, this.store.now) - c.begin[i];
        if (ticks > bestTime) {
          [best, bestTime] = [c.base + i, ticks];
        }
      });
    }
    return best;
  }

  private rowAt(y: number): Row | undefined {
    return this.layout.rows.find(r => y >= r.top - 2 && y <= r.top + r.height + 2);
  }
}
