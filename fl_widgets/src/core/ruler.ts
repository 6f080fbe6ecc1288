/** The measured span of a timeline: drawn with the mouse, or with M and the arrow keys. Times in µs since the cell began. */
import { formatTime } from './format';

/** The arrows move the end by this share of the view, with Shift by a tenth of it. */
const STEP = 1 / 50;

export class Ruler {
  span: [number, number] | null = null;
  /** True while the arrow keys move the end. */
  moving = false;

  /** Begins at a span whose right end the arrows will move; returns what to say. */
  begin(from: number, to: number): string {
    this.span = [from, to];
    this.moving = true;
    return `measuring: ${formatTime(to - from)}; left and right move the end, Enter keeps it`;
  }

  /** Moves the end, never out of the profile; returns what to say. */
  move(by: number, view: number, end: number, fine: boolean): string {
    if (this.span === null) {
      return '';
    }
    const [from, to] = this.span;
    const moved = Math.max(0, Math.min(end, to + by * view * STEP * (fine ? 0.1 : 1)));
    this.span = [from, moved];
    return formatTime(Math.abs(moved - from));
  }

  clear(): void {
    this.span = null;
    this.moving = false;
  }
}
