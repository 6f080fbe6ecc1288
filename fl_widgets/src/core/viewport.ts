/** The window [a, b] of time that the timeline shows: zoom, pan, following the live end. All in microseconds. */

/** A live view shows this much of the trace. */
export const LIVE_WINDOW = 112_000;
/** Share of the live window that lies after `now`. */
const LIVE_LEAD = 0.08;
const LEAST_SPAN = 2;

export class Viewport {
  a = 0;
  b = LIVE_WINDOW;
  /** True while the window follows the live end. */
  following = true;

  get span(): number {
    return this.b - this.a;
  }

  /** Shows [a, b], kept inside [0, end] and no narrower than 2 microseconds. */
  show(a: number, b: number, end: number): void {
    const span = Math.min(Math.max(end, LEAST_SPAN), Math.max(LEAST_SPAN, b - a));
    this.a = Math.max(0, Math.min(Math.max(end, LEAST_SPAN) - span, a));
    this.b = this.a + span;
    this.following = false;
  }

  zoom(factor: number, around: number, end: number): void {
    this.show(around - (around - this.a) * factor, around + (this.b - around) * factor, end);
  }

  pan(by: number, end: number): void {
    this.show(this.a + by, this.b + by, end);
  }

  follow(now: number): void {
    this.following = true;
    this.b = Math.max(LIVE_WINDOW, now + LIVE_WINDOW * LIVE_LEAD);
    this.a = this.b - LIVE_WINDOW;
  }
}
