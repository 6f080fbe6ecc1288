/** The field "Find op or tensor" over the timeline: what it finds stands out, Enter goes from one to the next. */
import { el, setText } from './dom';
import { thousands } from './format';
import { Search } from './search';
import type { ProfileStore } from './store';

export interface FindActions {
  /** What is searched for now; null for nothing. The view is drawn anew. */
  search(search: Search | null): void;
  /** The record with this id is the one gone to. */
  goTo(id: number): void;
  /** The record that is selected now. */
  selected(): number | null;
  /** Back to the timeline. */
  leave(): void;
}

export class FindField {
  readonly node = el('span.find');
  private readonly field = el('input', {
    type: 'search',
    placeholder: 'Find op or tensor',
    'aria-label': 'Find op or tensor; Enter goes to the next, Shift and Enter to the one before',
    spellcheck: 'false'
  });
  private readonly count = el('span.small', { 'aria-live': 'polite' });
  private current: Search | null = null;

  constructor(
    private readonly store: ProfileStore,
    private readonly actions: FindActions
  ) {
    this.node.dataset.lmSuppressShortcuts = 'true';
    this.node.append(this.field, this.count);
    this.field.addEventListener('input', () => this.changed());
    this.field.addEventListener('keydown', e => this.onKey(e));
  }

  focus(): void {
    this.field.focus({ preventScroll: true });
    this.field.select();
  }

  /** Empties the field; true where there was something in it. */
  clear(): boolean {
    const had = this.current !== null;
    this.field.value = '';
    this.changed();
    return had;
  }

  private changed(): void {
    this.current = this.field.value.trim() === '' ? null : new Search(this.store, this.field.value);
    const found = this.current?.all().length ?? 0;
    setText(this.count, this.current === null ? '' : found === 0 ? 'none' : thousands(found));
    this.actions.search(this.current);
  }

  private onKey(e: KeyboardEvent): void {
    e.stopPropagation(); // keys of a text field are nobody else's
    if (e.key === 'Enter') {
      this.step(e.shiftKey ? -1 : 1);
      e.preventDefault();
    } else if (e.key === 'Escape') {
      this.clear();
      this.actions.leave();
      e.preventDefault();
    }
  }

  /** Goes to the next record found after the selected one, or before it; around at the end. */
  private step(by: number): void {
    const found = this.current?.all() ?? [];
    if (found.length === 0) {
      return;
    }
    const c = this.store.columns;
    const id = this.actions.selected();
    const at = id === null ? -1 : found.indexOf(id);
    let next = at + by;
    if (at < 0 && id !== null && c.has(id)) {
      const after = found.findIndex(f => c.begin[f - c.base] > c.begin[id - c.base]);
      next = by > 0 ? after : (after < 0 ? found.length : after) - 1;
    } else if (at < 0) {
      next = by > 0 ? 0 : found.length - 1;
    }
    next = (next + found.length) % found.length;
    setText(this.count, `${thousands(next + 1)} of ${thousands(found.length)}`);
    this.actions.goTo(found[next]);
  }
}
