/** One profile on the page: header, tabs, the four views and the live counters, painted from a store once a frame at most. */
import { button, Disposer, el, fill, setText, update } from './dom';
import { chainsOff, FallbackView } from './fallback_view';
import { plural } from './format';
import { LiveCounters, notes, paintHeader, stateWord } from './header';
import { TIER_NAMES } from './kinds';
import { LinesView } from './lines_view';
import { legend } from './marks';
import { MemoryView } from './memory_view';
import { noteFrame, notePaint } from './probe';
import type { ProfileStore } from './store';
import { ensureStyle } from './style';
import { isDark, readPalette, watchTheme } from './theme';
import { TimelineView } from './timeline';

const TABS = ['timeline', 'memory', 'fallback', 'lines'] as const;
export type TabName = (typeof TABS)[number];
const TAB_LABELS: Record<TabName, string> = { timeline: 'Timeline', memory: 'Memory', fallback: 'Fallback', lines: 'Lines' };

/** Words and counters change at most this often, with a batch; where no batch comes they wait no longer than QUIET_MS. */
const WORDS_MS = 400;
const QUIET_MS = 900;
/** With reduced motion a live view steps once a second. */
const REDUCED_MS = 1000;

let views = 0;

export class ProfileView {
  readonly node = el('div', { class: 'rfl' });
  readonly timeline: TimelineView;
  private readonly header = el('div.hd');
  private readonly notes = el('div');
  private readonly empty = el('div.empty', { hidden: true });
  private readonly body = el('div');
  private readonly tabs: Record<TabName, HTMLButtonElement>;
  private readonly counts: Record<TabName, HTMLElement>;
  private readonly pane = el('div', { role: 'tabpanel' });
  private readonly hold = button('Hold the view', () => this.timeline.setFollowing(!this.timeline.following));
  private readonly memory: MemoryView;
  private readonly fallback: FallbackView;
  private readonly lines: LinesView;
  private readonly counters: LiveCounters;
  private readonly disposer = new Disposer();
  private readonly reduced = matchMedia('(prefers-reduced-motion: reduce)');
  private tab: TabName = 'timeline';
  private frame = 0;
  private timer = 0;
  private wordsAt = -Infinity;
  private wordsRevision = -1;
  private paintedAt = -Infinity;
  private wasRunning = true;
  private notedNumber = -1;

  constructor(readonly store: ProfileStore) {
    const id = `rfl-${++views}`;
    // Not in the page yet: the colours are read again at the first paint, when they are known.
    const palette = readPalette(this.node);
    this.timeline = new TimelineView(
      store,
      palette,
      () => this.schedule(),
      () => this.paintHold()
    );
    this.memory = new MemoryView(store, palette, () => this.schedule());
    this.fallback = new FallbackView(store, op => this.open('timeline', () => this.timeline.showOp(op)));
    this.lines = new LinesView(store, line => this.open('timeline', () => this.timeline.highlightLine(line)));
    this.counters = new LiveCounters(store);
    this.tabs = {} as Record<TabName, HTMLButtonElement>;
    this.counts = {} as Record<TabName, HTMLElement>;
    const list = el('div.tabs', { role: 'tablist', 'aria-label': 'Views of the profile' });
    for (const name of TABS) {
      this.counts[name] = el('span.n');
      const tab = el(
        'button.tab',
        { type: 'button', role: 'tab', id: `${id}-${name}`, 'aria-controls': `${id}-pane` },
        TAB_LABELS[name],
        this.counts[name]
      );
      tab.addEventListener('click', () => this.open(name));
      this.tabs[name] = tab;
      list.append(tab);
    }
    list.addEventListener('keydown', e => this.onTabKey(e));
    this.pane.id = `${id}-pane`;
    this.hold.style.marginLeft = '12px';
    this.body.append(el('div.tb', {}, list, el('span.sp'), legend(), this.timeline.find.node, this.hold), this.pane, this.counters.node);
    this.node.append(this.header, this.notes, this.empty, this.body);
    this.watch();
    this.open('timeline');
  }

  /** Shows a tab; `then` runs once it is drawn. */
  open(name: TabName, then?: () => void): void {
    this.tab = name;
    for (const each of TABS) {
      this.tabs[each].setAttribute('aria-selected', String(each === name));
      this.tabs[each].tabIndex = each === name ? 0 : -1;
    }
    this.pane.setAttribute('aria-labelledby', this.tabs[name].id);
    fill(this.pane, this.current().node);
    this.paintHold();
    if (this.node.isConnected && !this.body.hidden) {
      this.current().paint(); // not in the next frame: a tab is never seen empty, or with what it held before
    }
    then?.();
    this.schedule();
  }

  dispose(): void {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.disposer.dispose();
    [this.timeline, this.memory, this.fallback, this.lines].forEach(v => v.dispose());
    this.node.remove();
  }

  /** Paints in the next frame, once for however many changes. */
  schedule(): void {
    if (this.frame === 0 && !this.disposer.disposed) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.paint();
      });
    }
  }

  private watch(): void {
    this.disposer.add(this.store.onChange(() => this.onStore()));
    this.disposer.add(watchTheme(() => this.readTheme()));
    const resize = new ResizeObserver(() => this.schedule());
    resize.observe(this.node);
    this.disposer.add(() => resize.disconnect());
  }

  private onStore(): void {
    const wait = this.reduced.matches && this.store.running ? this.paintedAt + REDUCED_MS - performance.now() : 0;
    if (wait <= 0) {
      this.schedule();
    } else if (this.timer === 0) {
      this.timer = window.setTimeout(() => {
        this.timer = 0;
        this.schedule();
      }, wait);
    }
  }

  private readTheme(): void {
    if (!this.node.isConnected) {
      return;
    }
    ensureStyle(this.node);
    this.node.dataset.dark = String(isDark(this.node));
    const palette = readPalette(this.node);
    this.timeline.setPalette(palette);
    this.memory.setPalette(palette);
    this.schedule();
  }

  private current(): { node: HTMLElement; paint(): void } {
    return { timeline: this.timeline, memory: this.memory, fallback: this.fallback, lines: this.lines }[this.tab];
  }

  private paint(): void {
    if (!this.node.isConnected) {
      return; // shown later: the ResizeObserver calls again
    }
    const began = performance.now();
    if (this.node.dataset.dark === undefined) {
      this.readTheme();
    }
    const { store } = this;
    const ended = this.wasRunning && !store.running;
    if (store.revision !== this.wordsRevision) {
      if (began - this.wordsAt >= WORDS_MS || ended || !store.running) {
        clearTimeout(this.timer);
        this.timer = 0;
        this.paintWords();
        this.wordsAt = began;
        this.wordsRevision = store.revision;
      } else {
        this.catchUp(QUIET_MS);
      }
    }
    this.wasRunning = store.running;
    if (!this.body.hidden) {
      this.current().paint();
    }
    this.paintedAt = performance.now();
    this.note(this.paintedAt - began);
  }

  /** Makes sure that the words catch up after the last change. */
  private catchUp(ms: number): void {
    if (this.timer === 0) {
      this.timer = window.setTimeout(() => {
        this.timer = 0;
        this.schedule();
      }, ms);
    }
  }

  private note(drawMs: number): void {
    noteFrame(this.store.summary.state, drawMs);
    const frame = this.store.lastFrame;
    if (frame && frame.number !== this.notedNumber) {
      this.notedNumber = frame.number;
      notePaint(frame.sentMs, frame.number);
    }
  }

  private paintWords(): void {
    const { store } = this;
    paintHeader(this.header, store, this.reduced.matches);
    update(this.notes, ...notes(store));
    const counts = store.summary.op_count ?? {};
    const ran = TIER_NAMES.some(t => (counts[t] ?? 0) > 0) || store.columns.length > 0;
    const message = store.refusal ?? (!ran && !store.running ? 'No device work in this cell. Every tensor was on cpu.' : null);
    this.empty.hidden = message === null;
    this.body.hidden = message !== null;
    this.header.hidden = store.refusal !== null;
    setText(this.empty, message ?? '');
    const chains = chainsOff(store).length;
    const leaks = store.running ? 0 : (store.tables.leaks?.length ?? 0);
    setText(this.counts.fallback, chains > 0 ? plural(chains, 'chain') : '');
    setText(this.counts.memory, leaks > 0 ? plural(leaks, 'leak') : '');
    this.node.setAttribute('aria-label', `torch_fl profile, ${stateWord(store.summary)}`);
    this.counters.node.hidden = !store.running;
    if (store.running) {
      this.counters.paint();
    }
    this.paintHold();
  }

  private paintHold(): void {
    this.timeline.find.node.hidden = this.tab !== 'timeline';
    this.hold.hidden = !this.store.running || this.tab !== 'timeline';
    setText(this.hold, this.timeline.following ? 'Hold the view' : 'Follow');
  }

  private onTabKey(e: KeyboardEvent): void {
    const by = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
    if (by !== 0) {
      const next = TABS[(TABS.indexOf(this.tab) + by + TABS.length) % TABS.length];
      this.open(next);
      this.tabs[next].focus();
      e.preventDefault();
      e.stopPropagation();
    }
  }
}
