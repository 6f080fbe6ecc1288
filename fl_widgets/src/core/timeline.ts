/** The timeline tab: canvas, mouse, keys and touch, the details card beside it and the field that finds. */
import { detailsCard } from './card';
import { endOf } from './channels';
import { Disposer, el, fill } from './dom';
import { FindField } from './find_field';
import { Hit, type Zone } from './hit';
import { layoutTimeline } from './layout';
import { Kind } from './kinds';
import { acrossLanes, consumer, inLane, producer } from './navigate';
import { Ruler } from './ruler';
import type { ProfileStore } from './store';
import type { Palette } from './theme';
import { TimelinePainter, type TimelineState } from './timeline_paint';
import { Viewport } from './viewport';

const CARD_BELOW = 1000; // px: under this width the card goes under the timeline
const DRAG_START = 4; // px

export class TimelineView {
  readonly node = el('div.two');
  private readonly stage = el('div.stage', {
    tabindex: 0,
    role: 'application',
    'aria-label':
      'Timeline of device work by lane. W and S zoom, A and D pan, arrows select, F zooms to the selection, 0 shows all, M measures, slash finds.',
    'data-lm-suppress-shortcuts': 'true'
  });
  private readonly canvas = el('canvas');
  private readonly tip = el('div.tip', { hidden: true });
  private readonly live = el('div.live', { 'aria-live': 'polite' });
  readonly find: FindField;
  private readonly side = el('div.side');
  private readonly disposer = new Disposer();
  private readonly painter: TimelinePainter;
  private readonly viewport = new Viewport();
  private readonly state: TimelineState = {
    a: 0,
    b: 1,
    following: true,
    selected: null,
    sameName: null,
    line: null,
    found: null,
    measure: null
  };
  private readonly hit: Hit;
  private readonly ruler = new Ruler();
  private layoutRevision = -1;
  private framed = false;
  private pointerTime = 0;
  private drag: { x: number; zone: Zone; a: number; moved: boolean } | null = null;
  private readonly touches = new Map<number, number>();
  private pinch = 0;

  constructor(
    private readonly store: ProfileStore,
    palette: Palette,
    private readonly repaint: () => void,
    private readonly followChanged: () => void
  ) {
    this.painter = new TimelinePainter(store, palette);
    this.hit = new Hit(store, this.viewport);
    this.find = new FindField(store, {
      search: found => {
        this.state.found = found;
        this.repaint();
      },
      goTo: id => this.goTo(id),
      selected: () => this.state.selected,
      leave: () => this.stage.focus({ preventScroll: true })
    });
    this.stage.append(this.canvas, this.tip, this.live);
    this.node.append(this.stage, this.side);
    this.side.hidden = true;
    this.bind();
  }

  get following(): boolean {
    return this.viewport.following;
  }

  get frame(): [number, number] {
    return [this.viewport.a, this.viewport.b];
  }

  setPalette(palette: Palette): void {
    this.painter.setPalette(palette);
  }

  setFollowing(on: boolean): void {
    if (on) {
      this.viewport.follow(this.store.now);
    } else {
      this.viewport.following = false;
    }
    this.changed();
  }

  /** Highlights the records of one cell line; null for none. */
  highlightLine(line: number | null): void {
    this.state.line = line;
    this.repaint();
  }

  /** Shows the calls of `name` among the others, and selects the longest. */
  showOp(name: string): void {
    const c = this.store.columns;
    let best = -1;
    for (let i = 0; i < c.length; i++) {
      if (c.kind[i] === Kind.kernel && this.store.text(c.name[i]) === name) {
        best = best < 0 || c.end[i] - c.begin[i] > c.end[best] - c.begin[best] ? i : best;
      }
    }
    if (best >= 0) {
      this.select(c.base + best);
      this.zoomToSelection();
    }
  }

  paint(): void {
    const width = Math.floor(this.stage.clientWidth || this.hit.width);
    this.hit.width = width;
    this.node.classList.toggle('rfl-wide', this.side.hidden || this.node.clientWidth < CARD_BELOW);
    this.placeWindow();
    if (this.layoutRevision !== this.store.revision) {
      this.hit.layout = layoutTimeline(this.store);
      this.layoutRevision = this.store.revision;
    }
    const ratio = window.devicePixelRatio || 1;
    const pixels: [number, number] = [Math.round(width * ratio), Math.round(this.hit.layout.height * ratio)];
    if (this.canvas.width !== pixels[0] || this.canvas.height !== pixels[1]) {
      [this.canvas.width, this.canvas.height] = pixels;
      this.canvas.style.height = `${this.hit.layout.height}px`;
    }
    const ctx = this.canvas.getContext('2d', { alpha: false });
    if (ctx) {
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.painter.paint(ctx, width, this.hit.layout, this.state);
    }
  }

  dispose(): void {
    this.disposer.dispose();
  }

  private placeWindow(): void {
    const view = this.viewport;
    if (this.store.running) {
      if (view.following) {
        view.follow(this.store.now);
      }
    } else if (view.following || !this.framed) {
      const untouched = view.following;
      view.following = false;
      if (untouched) {
        this.frameResult();
      }
      this.framed = true;
    }
    this.state.a = view.a;
    this.state.b = view.b;
    this.state.following = view.following;
    this.state.measure = this.ruler.span;
  }

  /** The first window of a finished cell: around its longest fallback, or all of a short cell. */
  private frameResult(): void {
    const { store, viewport } = this;
    const c = store.columns;
    let best = -1;
    let most = 0;
    for (let i = 0; i < c.length; i++) {
      if (c.kind[i] === Kind.kernel && c.count[i] === 1) {
        const weight = (c.end[i] - c.begin[i]) * (c.tier[i] >= 3 && c.tier[i] <= 4 ? 1000 : 1);
        [best, most] = weight > most ? [i, weight] : [best, most];
      }
    }
    const duration = best < 0 ? 0 : c.end[best] - c.begin[best];
    const span = Math.max(60_000, duration * 6);
    if (best < 0 || store.end < span * 1.5) {
      viewport.show(0, store.end, store.end);
    } else {
      const middle = (c.begin[best] + c.end[best]) / 2;
      viewport.show(middle - span * 0.6, middle + span * 0.4, store.end);
    }
    if (best >= 0) {
      this.select(c.base + best, false);
    }
  }

  private changed(): void {
    this.followChanged();
    this.repaint();
  }

  private select(id: number | null, aloud = true): void {
    this.state.selected = id;
    const index = id === null ? -1 : id - this.store.columns.base;
    this.side.hidden = id === null;
    if (id !== null) {
      fill(
        this.side,
        ...detailsCard(this.store, index, {
          sameOp: name => {
            this.state.sameName = this.state.sameName === name ? null : name;
            this.repaint();
          },
          producer: buffer => this.selectProducer(buffer)
        })
      );
      if (aloud) {
        this.live.textContent = this.painter.describe(index);
      }
    }
    this.repaint();
  }

  /** Selects the record that made the buffer, or says that it is not here. */
  private selectProducer(buffer: number): void {
    const id = producer(this.store, buffer);
    if (id === undefined) {
      this.live.textContent = 'what made this buffer is not in the view';
    } else {
      this.goTo(id);
    }
  }

  private goTo(id: number): void {
    this.select(id);
    this.reveal(id - this.store.columns.base);
  }

  private reveal(index: number): void {
    const c = this.store.columns;
    if (c.begin[index] < this.viewport.a || c.end[index] > this.viewport.b) {
      const middle = (c.begin[index] + c.end[index]) / 2;
      this.viewport.show(middle - this.viewport.span / 2, middle + this.viewport.span / 2, this.store.end);
    }
    this.changed();
  }

  private zoomToSelection(): void {
    const c = this.store.columns;
    if (this.state.selected !== null && c.has(this.state.selected)) {
      const i = this.state.selected - c.base;
      const around = Math.max(5, endOf(c, i, this.store.now) - c.begin[i]) * 4;
      this.viewport.show(c.begin[i] - around, endOf(c, i, this.store.now) + around, this.store.end);
      this.changed();
    }
  }

  private zoomAll(): void {
    this.viewport.show(0, this.store.end, this.store.end);
    this.changed();
  }

  private zoomBy(factor: number): void {
    const c = this.store.columns;
    const selected = this.state.selected;
    const inView = (t: number) => t >= this.viewport.a && t <= this.viewport.b;
    const around =
      this.pointerTime > 0 && inView(this.pointerTime)
        ? this.pointerTime
        : selected !== null && c.has(selected)
          ? (c.begin[selected - c.base] + c.end[selected - c.base]) / 2
          : (this.viewport.a + this.viewport.b) / 2;
    this.viewport.zoom(factor, around, this.store.end);
    this.changed();
  }

  private panBy(us: number): void {
    this.viewport.pan(us, this.store.end);
    this.changed();
  }

  private bind(): void {
    const on = this.disposer.listen.bind(this.disposer, this.stage) as <K extends keyof HTMLElementEventMap>(
      type: K,
      listener: (event: HTMLElementEventMap[K]) => void,
      options?: AddEventListenerOptions
    ) => void;
    on('wheel', e => this.onWheel(e), { passive: false });
    on('pointerdown', e => this.onPointerDown(e));
    on('pointermove', e => this.onPointerMove(e));
    on('pointerup', e => this.onPointerUp(e));
    on('pointercancel', e => this.endTouch(e));
    on('pointerleave', () => {
      this.tip.hidden = true;
    });
    on('dblclick', e => this.onDoubleClick(e));
    on('keydown', e => this.onKey(e));
  }

  private onWheel(e: WheelEvent): void {
    if (!e.ctrlKey && !e.shiftKey) {
      return; // a plain wheel scrolls the page
    }
    e.preventDefault();
    const amount = Math.abs(e.deltaY) > Math.abs(e.deltaX) ? e.deltaY : e.deltaX;
    if (e.shiftKey) {
      this.panBy((amount * this.viewport.span) / 900);
    } else {
      this.viewport.zoom(Math.exp(Math.max(-60, Math.min(60, amount)) * 0.004), this.hit.timeAt(this.offset(e)[0]), this.store.end);
      this.changed();
    }
  }

  private offset(e: MouseEvent): [number, number] {
    const box = this.canvas.getBoundingClientRect();
    return [e.clientX - box.left, e.clientY - box.top];
  }

  private onPointerDown(e: PointerEvent): void {
    if (e.button !== 0) {
      return;
    }
    const [x, y] = this.offset(e);
    this.stage.focus({ preventScroll: true });
    if (e.pointerType === 'touch') {
      this.touches.set(e.pointerId, x);
      this.pinch = this.fingerSpan();
    }
    this.stage.setPointerCapture(e.pointerId);
    this.drag = {
      x,
      zone: this.hit.zoneAt(y),
      a: this.viewport.a,
      moved: false
    };
    this.ruler.clear();
    if (this.drag.zone === 'overview') {
      const t = this.hit.overviewTime(x);
      if (t < this.viewport.a || t > this.viewport.b) {
        this.viewport.show(t - this.viewport.span / 2, t + this.viewport.span / 2, this.store.end);
        this.drag.a = this.viewport.a;
        this.changed();
      }
    }
  }

  private onPointerMove(e: PointerEvent): void {
    const [x, y] = this.offset(e);
    this.pointerTime = this.hit.timeAt(x);
    if (this.touches.size === 2) {
      this.onPinch(e.pointerId, x);
      return;
    }
    if (!this.drag) {
      this.showTip(x, y);
      return;
    }
    this.drag.moved ||= Math.abs(x - this.drag.x) > DRAG_START;
    if (!this.drag.moved) {
      return;
    }
    this.tip.hidden = true;
    if (this.drag.zone === 'axis') {
      this.ruler.span = [this.hit.timeAt(this.drag.x), this.hit.timeAt(x)];
      this.repaint();
    } else {
      const whole = this.drag.zone === 'overview' ? this.store.end : -this.viewport.span;
      const a = this.drag.a + ((x - this.drag.x) / this.hit.inner) * whole;
      this.viewport.show(a, a + this.viewport.span, this.store.end);
      this.changed();
    }
  }

  private fingerSpan(): number {
    const xs = [...this.touches.values()];
    return xs.length === 2 ? Math.max(20, Math.abs(xs[0] - xs[1])) : 0;
  }

  private onPinch(pointer: number, x: number): void {
    this.touches.set(pointer, x);
    const span = this.fingerSpan();
    const xs = [...this.touches.values()];
    this.viewport.zoom(this.pinch / span, this.hit.timeAt((xs[0] + xs[1]) / 2), this.store.end);
    this.pinch = span;
    this.changed();
  }

  private endTouch(e: PointerEvent): void {
    this.touches.delete(e.pointerId);
    this.drag = null;
  }

  private onPointerUp(e: PointerEvent): void {
    const drag = this.drag;
    this.endTouch(e);
    if (!drag || drag.moved || drag.zone !== 'lanes') {
      return;
    }
    const [x, y] = this.offset(e);
    const id = this.hit.recordAt(x, y);
    const c = this.store.columns;
    if (e.altKey && id !== null) {
      this.state.sameName = c.name[id - c.base];
    } else if (id === null) {
      this.state.sameName = null;
    }
    this.select(id);
  }

  private onDoubleClick(e: MouseEvent): void {
    const [x, y] = this.offset(e);
    if (this.hit.zoneAt(y) === 'lanes' && this.hit.recordAt(x, y) !== null) {
      this.zoomToSelection();
    } else {
      this.zoomAll();
    }
  }

  private showTip(x: number, y: number): void {
    const id = this.hit.zoneAt(y) === 'lanes' ? this.hit.recordAt(x, y) : null;
    this.tip.hidden = id === null;
    if (id !== null) {
      this.tip.textContent = this.painter.describe(id - this.store.columns.base);
      const left = Math.min(x + 12, this.hit.width - this.tip.offsetWidth - 4);
      this.tip.style.left = `${Math.max(0, left)}px`;
      this.tip.style.top = `${y + 16}px`;
    }
  }

  private onKey(e: KeyboardEvent): void {
    if (e.ctrlKey || e.metaKey) {
      return;
    }
    const step = this.viewport.span;
    const keys: Record<string, () => void> = {
      w: () => this.zoomBy(0.7),
      '+': () => this.zoomBy(0.7),
      s: () => this.zoomBy(1.4),
      '-': () => this.zoomBy(1.4),
      a: () => (e.shiftKey ? this.toggleSame() : this.panBy(-step * 0.2)),
      d: () => this.panBy(step * 0.2),
      pageup: () => this.panBy(-step),
      pagedown: () => this.panBy(step),
      f: () => this.zoomToSelection(),
      '0': () => this.zoomAll(),
      arrowleft: () => (this.ruler.moving ? this.measureBy(-1, e.shiftKey) : this.step(-1)),
      arrowright: () => (this.ruler.moving ? this.measureBy(1, e.shiftKey) : this.step(1)),
      arrowup: () => this.changeLane(-1),
      arrowdown: () => this.changeLane(1),
      enter: () => this.keepMeasure() || this.step(0),
      m: () => this.beginMeasure(),
      '/': () => this.find.focus(),
      '[': () => this.toProducer(),
      ']': () => this.toConsumer()
    };
    const call = keys[e.key.toLowerCase()];
    if (call) {
      call();
    } else if (e.key !== 'Escape' || !this.clear()) {
      return;
    }
    e.preventDefault();
    e.stopPropagation();
  }

  /** Clears what is selected; false where nothing was, so that a second Escape leaves the output. */
  private clear(): boolean {
    const s = this.state;
    const had = s.selected !== null || s.sameName !== null || this.ruler.span !== null || s.line !== null;
    s.sameName = s.line = null;
    this.ruler.clear();
    const found = this.find.clear();
    this.select(null);
    return had || found;
  }

  /** M: measures the selection, or from the middle of the view. */
  private beginMeasure(): void {
    const c = this.store.columns;
    const id = this.state.selected;
    const middle = (this.viewport.a + this.viewport.b) / 2;
    const selected = id !== null && c.has(id) ? id - c.base : -1;
    const [from, to] = selected < 0 ? [middle, middle] : [c.begin[selected], endOf(c, selected, this.store.now)];
    this.live.textContent = this.ruler.begin(from, to);
    this.repaint();
  }

  private measureBy(by: number, fine: boolean): void {
    this.live.textContent = this.ruler.move(by, this.viewport.span, this.store.end, fine);
    this.repaint();
  }

  /** Enter: the span stays and the arrows select again. False where nothing is being measured. */
  private keepMeasure(): boolean {
    const was = this.ruler.moving;
    this.ruler.moving = false;
    return was;
  }

  private toggleSame(): void {
    const c = this.store.columns;
    const id = this.state.selected;
    this.state.sameName = this.state.sameName !== null || id === null || !c.has(id) ? null : c.name[id - c.base];
    this.repaint();
  }

  /** Selects the next (1) or previous (-1) record of the lane; the first in view where none is selected. */
  private step(by: number): void {
    const id = this.state.selected;
    if (id === null || !this.store.columns.has(id)) {
      this.changeLane(1);
      return;
    }
    const next = inLane(this.store, id, by);
    if (next !== undefined) {
      this.goTo(next);
    }
  }

  /** Selects in the next lane down (1) or up (-1) what runs nearest to the selection. */
  private changeLane(by: number): void {
    const middle = (this.viewport.a + this.viewport.b) / 2;
    const found = acrossLanes(this.store, this.hit.layout.rows, this.state.selected, by, middle);
    if (found !== undefined) {
      this.goTo(found);
    }
  }

  private toProducer(): void {
    const c = this.store.columns;
    const id = this.state.selected;
    if (id !== null && c.has(id) && c.parent[id - c.base] !== 0) {
      this.selectProducer(c.parent[id - c.base]);
    }
  }

  private toConsumer(): void {
    const id = this.state.selected;
    const found = id !== null && this.store.columns.has(id) ? consumer(this.store, id) : undefined;
    if (found !== undefined) {
      this.goTo(found);
    }
  }
}
