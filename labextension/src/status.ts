/** The status bar item: the device with most memory in use, and how much. */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { Widget } from '@lumino/widgets';
import { el, ensureStyle, fill, formatBytes, formatShare, vendorLetters, vendorMark, type DeviceInfo } from '../../fl_widgets/src/core';
import { gaugeOf, IDeviceMonitor, type Gauge, type MonitorState } from './monitor';
import { Command } from './panel_plugin';

interface Shown {
  device: DeviceInfo;
  gauge: Gauge;
  busy: number | undefined;
}

/** The device to show: most memory in use; undefined where nothing is loaded. */
export function mainDevice(state: MonitorState): Shown | undefined {
  if (state.kind !== 'answer' || !state.answer.loaded) {
    return undefined;
  }
  const all = (state.answer.devices ?? []).map((device, i) => ({
    device,
    gauge: gaugeOf(state.answer, device, i) ?? {},
    busy: state.busy.get(device.index ?? i)
  }));
  return all.sort((a, b) => (b.gauge.allocated ?? 0) - (a.gauge.allocated ?? 0))[0];
}

class StatusItem extends Widget {
  private readonly button = el('button', { type: 'button', class: 'torch-fl-status', title: 'Show RAL devices' });

  constructor(
    private readonly monitor: IDeviceMonitor,
    show: () => void
  ) {
    super();
    this.node.append(this.button);
    this.button.addEventListener('click', show);
    monitor.changed.connect(this.paint, this);
    this.paint();
  }

  dispose(): void {
    if (!this.isDisposed) {
      this.monitor.changed.disconnect(this.paint, this);
      super.dispose();
    }
  }

  private paint(): void {
    const main = mainDevice(this.monitor.state);
    ensureStyle(document.body);
    if (main) {
      const busy = main.busy === undefined ? '' : `${formatShare(main.busy)} · `;
      const mark = vendorMark(vendorLetters(main.device), main.device.name ?? main.device.id);
      fill(this.button, mark, ` ${main.device.id}  ${busy}${formatBytes(main.gauge.allocated ?? 0)}`);
    }
  }
}

export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: 'torch-fl-lab:status',
  description: 'Shows a device and its memory in the status bar.',
  autoStart: true,
  requires: [IDeviceMonitor],
  optional: [IStatusBar],
  activate: (app: JupyterFrontEnd, monitor: IDeviceMonitor, bar: IStatusBar | null): void => {
    if (!bar) {
      return;
    }
    bar.registerStatusItem('torch-fl-lab:status', {
      item: new StatusItem(monitor, () => void app.commands.execute(Command.showDevices)),
      align: 'left',
      rank: 50,
      isActive: () => monitor.statusBar && mainDevice(monitor.state) !== undefined,
      activeStateChanged: monitor.changed as never
    });
  }
};
