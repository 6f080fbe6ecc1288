/** The anywidget build: a live profile in notebooks without our JupyterLab extension. */
import { ProfileStore, ProfileView, type LiveMessage } from '../core';

/** What anywidget gives of the kernel's model. */
interface WidgetModel {
  on(event: 'msg:custom', listener: (content: unknown, buffers: DataView[]) => void): void;
  off(event: 'msg:custom', listener: (content: unknown, buffers: DataView[]) => void): void;
  send(content: unknown): void;
}

interface Widget {
  initialize(context: { model: WidgetModel }): () => void;
  render(context: { model: WidgetModel; el: HTMLElement }): () => void;
}

/** anywidget calls this once for each model, so every view of the model reads one store and starts full. */
export default function widget(): Widget {
  const store = new ProfileStore();
  return {
    initialize({ model }) {
      const receive = (content: unknown, buffers: DataView[]) => {
        if (content && typeof content === 'object' && 'type' in content) {
          store.receive(content as LiveMessage, buffers);
          if (content.type === 'end') {
            model.send({ type: 'replay' }); // the kernel is free again: how the cell ended, and what this page missed
          }
        }
      };
      model.on('msg:custom', receive);
      model.send({ type: 'replay' });
      return () => model.off('msg:custom', receive);
    },
    render({ el }) {
      const view = new ProfileView(store);
      el.append(view.node);
      return () => view.dispose();
    }
  };
}
