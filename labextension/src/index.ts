/** The plugins of torch-fl-lab. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { livePlugin } from './live';
import { monitorPlugin } from './monitor';
import { commandsPlugin, panelPlugin } from './panel_plugin';
import { rendererPlugin } from './renderer';
import { statusPlugin } from './status';

const plugins: JupyterFrontEndPlugin<unknown>[] = [livePlugin, rendererPlugin, monitorPlugin, panelPlugin, commandsPlugin, statusPlugin];

export default plugins;
