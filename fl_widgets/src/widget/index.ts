/** The anywidget build: a live profile in notebooks without our JupyterLab extension. */
import { ProfileStore, ProfileView, type LiveMessage } from '../core';

/** What anywidget gives of the kernel's model. */
interface WidgetModel {
  on(event: 'msg:custom', listener: (content: unknown, buffers: DataView[]) => void): void;
  off(event: 'msg:custom', listener: (content: unknown, buffers: DataView[]) => void): void;
  send(content: unknown): void;
}

/** One store for each model: a second view of the same output starts full. */
const stores = new WeakMap<WidgetModel, ProfileStore>();

function storeOf(model: WidgetModel): ProfileStore {
  let store = stores.get(model);
  if (!store) {
    const made = new ProfileStore();
    store = made;
    stores.set(model, made);
    model.on('msg:custom', (content, buffers) => {
      const message = content as LiveMessage;
      if (message && typeof message === 'object' && 'type' in message) {
        made.receive(message, buffers);
      }
    });
    model.send({ type: 'replay' });
  }
  return store;
}

function render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
  const view = new ProfileView(storeOf(model));
  el.append(view.node);
  return () => view.dispose();
}

export default { render };
