/** Small helpers for making elements. Text always goes in as text, never as markup. */

export type Child = Node | string | null | undefined | false;

type Attributes = Record<string, string | number | boolean | null | undefined>;

/** Makes `<tag class="a b">`; `tag` is written as `tag.a.b`. Attributes that are false or null are left out. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K | `${K}.${string}`,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const [name, ...classes] = tag.split('.');
  const node = document.createElement(name) as HTMLElementTagNameMap[K];
  if (classes.length > 0) {
    node.className = classes.map(c => `rfl-${c}`).join(' ');
  }
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(key, value === true ? '' : String(value));
    }
  }
  node.append(...children.filter((c): c is Node | string => Boolean(c)));
  return node;
}

/** A button with a verb on it. */
export function button(label: string, onClick: () => void, kind = 'bt'): HTMLButtonElement {
  const node = el(`button.${kind}`, { type: 'button' }, label);
  node.addEventListener('click', onClick);
  return node;
}

/** Replaces the children of `node` by `children`. */
export function fill(node: Element, ...children: Child[]): void {
  node.replaceChildren(...children.filter((c): c is Node | string => Boolean(c)));
}

/**
 * Makes the children of `node` like `children`, changing only what differs: for parts that are made anew several times
 * a second and mostly stay as they were. What has listeners does not belong here.
 */
export function update(node: Element, ...children: Child[]): void {
  const wanted = children.filter((c): c is Node | string => Boolean(c)).map(c => (typeof c === 'string' ? new Text(c) : c));
  wanted.forEach((next, i) => {
    const old = node.childNodes[i];
    if (!old) {
      node.append(next);
    } else if (!old.isEqualNode(next)) {
      if (old instanceof Element && next instanceof Element && old.tagName === next.tagName) {
        copyAttributes(next, old);
        update(old, ...next.childNodes);
      } else if (old instanceof Text && next instanceof Text) {
        old.data = next.data;
      } else {
        old.replaceWith(next);
      }
    }
  });
  while (node.childNodes.length > wanted.length) {
    node.lastChild?.remove();
  }
}

function copyAttributes(from: Element, to: Element): void {
  for (const { name } of [...to.attributes]) {
    if (!from.hasAttribute(name)) {
      to.removeAttribute(name);
    }
  }
  for (const { name, value } of from.attributes) {
    if (to.getAttribute(name) !== value) {
      to.setAttribute(name, value);
    }
  }
}

/** Sets the text of `node` only where it changes, so that an idle counter costs no layout. */
export function setText(node: Element, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

/** Undoes what it was given, once, in the opposite order. */
export class Disposer {
  private readonly calls: (() => void)[] = [];
  disposed = false;

  add(call: () => void): void {
    this.calls.push(call);
  }

  listen<K extends keyof HTMLElementEventMap>(
    target: HTMLElement,
    type: K,
    listener: (event: HTMLElementEventMap[K]) => void,
    options?: AddEventListenerOptions
  ): void {
    target.addEventListener(type, listener, options);
    this.add(() => target.removeEventListener(type, listener, options));
  }

  dispose(): void {
    if (this.disposed) {
      return;
    }
    this.disposed = true;
    for (const call of this.calls.splice(0).reverse()) {
      call();
    }
  }
}
