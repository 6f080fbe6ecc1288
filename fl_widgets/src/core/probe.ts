/**
 * Measuring hook of the browser tests: does nothing unless `globalThis.__torchFlTest` or the
 * localStorage item `torchFlTest` is set; then every painted frame is noted in `window.__torchFl`.
 */

export interface Paint {
  painted_ms: number;
  sent_ms: number;
  number: number;
}

interface Probe {
  paints: Paint[];
  states: string[];
  draw_ms: number[];
}

declare global {
  var __torchFlTest: unknown;
  interface Window {
    __torchFl?: Probe;
  }
}

let wanted: boolean | undefined;

function probe(): Probe | null {
  if (wanted === undefined) {
    try {
      wanted = Boolean(globalThis.__torchFlTest) || localStorage.getItem('torchFlTest') !== null;
    } catch {
      wanted = false; // a page without storage
    }
  }
  if (!wanted) {
    return null;
  }
  window.__torchFl ??= { paints: [], states: [], draw_ms: [] };
  return window.__torchFl;
}

/** Notes that a frame with live batch `number` in it was painted. */
export function notePaint(sentMs: number, number: number): void {
  probe()?.paints.push({ painted_ms: performance.timeOrigin + performance.now(), sent_ms: sentMs, number });
}

/** Notes a frame's state word and how long its drawing took. */
export function noteFrame(state: string, drawMs: number): void {
  const p = probe();
  if (p) {
    p.draw_ms.push(drawMs);
    if (p.states[p.states.length - 1] !== state) {
      p.states.push(state);
    }
  }
}
