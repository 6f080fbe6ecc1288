/** Adds the side panel, its command and the palette's entries. */
import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { LOAD_SOURCE, profileActiveCell, runVisibly } from './actions';
import { deviceIcon } from './icons';
import { IDeviceMonitor } from './monitor';
import { DevicesPanel } from './panel';

const CATEGORY = 'torch_fl';

export const Command = {
  showDevices: 'torch-fl:show-devices',
  load: 'torch-fl:load-extension',
  profile: 'torch-fl:profile-cell'
} as const;

export const panelPlugin: JupyterFrontEndPlugin<void> = {
  id: 'torch-fl-lab:panel',
  description: 'The side panel that lists RAL devices.',
  autoStart: true,
  requires: [IDeviceMonitor],
  optional: [ILayoutRestorer],
  activate: (app: JupyterFrontEnd, monitor: IDeviceMonitor, restorer: ILayoutRestorer | null): void => {
    const panel = new DevicesPanel(monitor);
    app.shell.add(panel, 'left', { rank: 600, type: 'RAL devices' });
    restorer?.add(panel, panel.id);
    app.commands.addCommand(Command.showDevices, {
      label: 'Show RAL devices',
      caption: "List the devices of the active notebook's kernel",
      icon: deviceIcon,
      execute: () => app.shell.activateById(panel.id)
    });
  }
};

export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'torch-fl-lab:commands',
  description: 'Commands of torch_fl and their entries in the command palette.',
  autoStart: true,
  requires: [IDeviceMonitor],
  optional: [ICommandPalette],
  activate: (app: JupyterFrontEnd, monitor: IDeviceMonitor, palette: ICommandPalette | null): void => {
    const hasNotebook = () => monitor.panel !== null;
    app.commands.addCommand(Command.load, {
      label: 'Load torch_fl in this kernel',
      caption: `Insert a cell with ${LOAD_SOURCE} and run it`,
      isEnabled: hasNotebook,
      execute: async () => {
        if (monitor.panel) {
          await runVisibly(monitor.panel, LOAD_SOURCE);
          await monitor.refresh();
        }
      }
    });
    app.commands.addCommand(Command.profile, {
      label: 'Profile the active cell with %%ral_profile',
      isEnabled: hasNotebook,
      execute: async () => {
        if (monitor.panel) {
          await profileActiveCell(monitor.panel);
        }
      }
    });
    Object.values(Command).forEach(command => palette?.addItem({ command, category: CATEGORY }));
  }
};
