/** Reads the devices of the active notebook's kernel through the server part, which answers while the kernel is busy. */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { URLExt } from '@jupyterlab/coreutils';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { ServerConnection } from '@jupyterlab/services';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';
import type { DeviceInfo } from '../../fl_widgets/src/core';

/** One device's numbers from the trace file, kept up to date by the kernel's process. */
export interface Gauge {
  /** Index of the device. */
  device?: number;
  allocated?: number;
  reserved?: number;
  peak?: number;
  busy_ns?: number;
  total?: number;
}

export interface PluginInfo {
  name: string;
  version?: string;
  path?: string;
  status: string;
  reason?: string | null;
  missing?: string[];
}

export interface DevicesAnswer {
  loaded: boolean;
  devices?: DeviceInfo[];
  plugins?: PluginInfo[];
  gauges?: Gauge[];
  pid?: number | null;
  recording?: boolean;
}

export type MonitorState =
  | { kind: 'no-notebook' }
  | { kind: 'no-kernel'; notebook: string }
  | { kind: 'no-server'; notebook: string; message: string }
  | { kind: 'answer'; notebook: string; answer: DevicesAnswer; busy: ReadonlyMap<number, number> };

export interface IDeviceMonitor {
  readonly state: MonitorState;
  readonly changed: ISignal<IDeviceMonitor, MonitorState>;
  /** The notebook whose kernel is shown. */
  readonly panel: NotebookPanel | null;
  /** Looks every `pollSeconds` while someone watches closely, else every few seconds. */
  watch(closely: boolean): void;
  /** Looks now. */
  refresh(): Promise<void>;
  /** The status bar's item is wanted. */
  readonly statusBar: boolean;
}

export const IDeviceMonitor = new Token<IDeviceMonitor>('torch-fl-lab:IDeviceMonitor', "Devices of the active notebook's kernel.");

const IDLE_SECONDS = 5;
const ABSENT_SECONDS = 30;

/** The gauge of a device; `place` is the device's place in the list, for want of an index. */
export function gaugeOf(answer: DevicesAnswer, device: DeviceInfo, place: number): Gauge | undefined {
  return (answer.gauges ?? []).find(gauge => gauge.device === (device.index ?? place));
}

export class DeviceMonitor implements IDeviceMonitor {
  state: MonitorState = { kind: 'no-notebook' };
  readonly changed = new Signal<this, MonitorState>(this);
  statusBar = true;
  pollSeconds = 1;
  private closely = false;
  private timer = 0;
  private asking = 0;
  private lastBusy = new Map<number, { ns: number; at: number }>();

  constructor(
    private readonly tracker: INotebookTracker,
    private readonly server: ServerConnection.ISettings
  ) {
    tracker.currentChanged.connect((_, panel) => {
      this.lastBusy.clear();
      void this.refresh();
      void panel?.sessionContext.ready.then(() => this.refresh());
    });
    tracker.widgetAdded.connect((_, panel) => {
      panel.sessionContext.kernelChanged.connect(() => void this.refresh());
    });
    document.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'visible') {
        void this.refresh();
      }
    });
  }

  get panel(): NotebookPanel | null {
    return this.tracker.currentWidget;
  }

  watch(closely: boolean): void {
    this.closely = closely;
    void this.refresh();
  }

  async refresh(): Promise<void> {
    window.clearTimeout(this.timer);
    const turn = ++this.asking;
    const state = await this.look();
    if (turn !== this.asking) {
      return; // a later look has begun
    }
    this.state = state;
    this.changed.emit(state);
    const seconds = state.kind === 'no-server' ? ABSENT_SECONDS : this.closely ? this.pollSeconds : IDLE_SECONDS;
    if (document.visibilityState === 'visible' && state.kind !== 'no-notebook') {
      this.timer = window.setTimeout(() => void this.refresh(), seconds * 1000);
    }
  }

  private async look(): Promise<MonitorState> {
    const panel = this.panel;
    if (!panel) {
      return { kind: 'no-notebook' };
    }
    const notebook = panel.title.label;
    const kernel = panel.sessionContext.session?.kernel;
    if (!kernel) {
      return { kind: 'no-kernel', notebook };
    }
    const url = `${URLExt.join(this.server.baseUrl, 'torch-fl', 'devices')}?kernel=${encodeURIComponent(kernel.id)}`;
    try {
      const response = await ServerConnection.makeRequest(url, {}, this.server);
      if (!response.ok) {
        const absent = 'The server part of torch_fl is not running. Enable it with: jupyter server extension enable torch_fl.server';
        return { kind: 'no-server', notebook, message: response.status === 404 ? absent : `The server answered ${response.status}.` };
      }
      const answer = (await response.json()) as DevicesAnswer;
      return { kind: 'answer', notebook, answer, busy: this.busyShares(answer) };
    } catch (error) {
      return { kind: 'no-server', notebook, message: `The server cannot be reached: ${String(error)}` };
    }
  }

  /** Share of the time since the last look that each device was busy; known only while recording. */
  private busyShares(answer: DevicesAnswer): Map<number, number> {
    const now = performance.now();
    const shares = new Map<number, number>();
    (answer.gauges ?? []).forEach((gauge, i) => {
      const index = gauge.device ?? i;
      const before = this.lastBusy.get(index);
      const ns = gauge.busy_ns ?? 0;
      if (answer.recording && before && now > before.at && ns >= before.ns) {
        shares.set(index, Math.min(1, (ns - before.ns) / ((now - before.at) * 1e6)));
      }
      this.lastBusy.set(index, { ns, at: now });
    });
    return shares;
  }
}

export const monitorPlugin: JupyterFrontEndPlugin<IDeviceMonitor> = {
  id: 'torch-fl-lab:devices',
  description: "Reads the RAL devices of the active notebook's kernel.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ISettingRegistry],
  provides: IDeviceMonitor,
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker, registry: ISettingRegistry | null): IDeviceMonitor => {
    const monitor = new DeviceMonitor(tracker, app.serviceManager.serverSettings);
    const use = (settings: ISettingRegistry.ISettings) => {
      monitor.pollSeconds = Number(settings.get('pollSeconds').composite ?? 1);
      monitor.statusBar = Boolean(settings.get('statusBar').composite ?? true);
      void monitor.refresh();
    };
    registry
      ?.load(monitorPlugin.id)
      .then(settings => {
        use(settings);
        settings.changed.connect(use);
      })
      .catch(error => console.warn('torch_fl: settings could not be read', error));
    return monitor;
  }
};
