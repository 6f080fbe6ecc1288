/** What buttons and commands do in a notebook, always visibly: they write a cell and run it. */
import { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';

export const LOAD_SOURCE = '%load_ext torch_fl';
const PROFILE_MAGIC = '%%ral_profile';

/** Inserts a cell with `source` below the active one and runs it. */
export async function runVisibly(panel: NotebookPanel, source: string): Promise<void> {
  const notebook = panel.content;
  NotebookActions.insertBelow(notebook);
  notebook.activeCell?.model.sharedModel.setSource(source);
  await NotebookActions.run(notebook, panel.sessionContext);
}

/** Puts `%%ral_profile` on top of the active code cell, where it is not yet, and runs the cell. */
export async function profileActiveCell(panel: NotebookPanel): Promise<void> {
  const shared = panel.content.activeCell?.model.sharedModel;
  if (!shared || shared.cell_type !== 'code') {
    return;
  }
  const source = shared.getSource();
  if (!source.startsWith(PROFILE_MAGIC)) {
    shared.setSource(`${PROFILE_MAGIC}\n${source}`);
  }
  await NotebookActions.run(panel.content, panel.sessionContext);
}
