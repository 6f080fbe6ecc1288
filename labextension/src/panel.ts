/** The side panel "RAL devices": each device of the active notebook's kernel, and plugins that did not load with cause and cure. */
import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import {
  button,
  el,
  ensureStyle,
  fill,
  formatBytes,
  formatBytesOf,
  formatShare,
  isDark,
  vendorLetters,
  vendorMark,
  watchTheme,
  type DeviceInfo
} from '../../fl_widgets/src/core';
import { LOAD_SOURCE, runVisibly } from './actions';
import { deviceIcon } from './icons';
import { gaugeOf, type DevicesAnswer, type Gauge, type IDeviceMonitor, type MonitorState, type PluginInfo } from './monitor';

const HISTORY = 60;

/** float32 reads f32; only the types that people ask for are shown. */
const DTYPES: [name: string, chip: string][] = [
  ['float32', 'f32'],
  ['float64', 'f64'],
  ['float16', 'f16'],
  ['bfloat16', 'bf16'],
  ['int32', 'i32'],
  ['int64', 'i64'],
  ['bool', 'bool']
];

export class DevicesPanel extends Widget {
  private readonly body = el('div.pbody');
  private readonly history = new Map<number, number[]>();
  private readonly unwatchTheme: () => void;
  private shown = '';

  constructor(private readonly monitor: IDeviceMonitor) {
    super();
    this.id = 'torch-fl-devices';
    this.addClass('torch-fl-panel');
    this.title.icon = deviceIcon;
    this.title.caption = 'RAL devices';
    const again = button('↻', () => void monitor.refresh());
    again.title = 'Look again';
    again.setAttribute('aria-label', 'Look again');
    const root = el('div', { class: 'rfl torch-fl-panel-root' }, el('div.phead', {}, el('b', {}, 'RAL devices'), again), this.body);
    this.node.append(root);
    this.unwatchTheme = watchTheme(() => this.applyTheme());
    monitor.changed.connect(this.onChanged, this);
    this.onChanged(monitor, monitor.state);
  }

  dispose(): void {
    if (!this.isDisposed) {
      this.unwatchTheme();
      this.monitor.changed.disconnect(this.onChanged, this);
      super.dispose();
    }
  }

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this.applyTheme();
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this.monitor.watch(true);
  }

  protected onAfterHide(msg: Message): void {
    super.onAfterHide(msg);
    this.monitor.watch(false);
  }

  private applyTheme(): void {
    const root = this.node.firstElementChild as HTMLElement;
    ensureStyle(root);
    root.dataset.dark = String(isDark(root));
  }

  private onChanged(_: IDeviceMonitor, state: MonitorState): void {
    this.remember(state);
    const text = JSON.stringify(state.kind === 'answer' ? [state, [...state.busy]] : state);
    if (text !== this.shown) {
      this.shown = text;
      // Rebuilding would take the focus from a button: keep it where it was.
      const focused = this.body.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.key : undefined;
      fill(this.body, ...this.content(state));
      if (focused) {
        this.body.querySelector<HTMLElement>(`[data-key="${CSS.escape(focused)}"]`)?.focus();
      }
    }
  }

  private remember(state: MonitorState): void {
    if (state.kind === 'answer') {
      state.busy.forEach((share, index) => {
        const past = this.history.get(index) ?? [];
        past.push(share);
        this.history.set(index, past.slice(-HISTORY));
      });
    } else {
      this.history.clear();
    }
  }

  private content(state: MonitorState): HTMLElement[] {
    if (state.kind === 'no-notebook') {
      return [el('div.pcard.mut', {}, 'Open a notebook to see the devices of its kernel.')];
    }
    const head = el('div.pfor', {}, 'For ', el('b', {}, state.notebook));
    switch (state.kind) {
      case 'no-kernel':
        return [head, el('div.pcard.mut', {}, 'This notebook has no kernel.')];
      case 'no-server':
        return [head, el('div.pcard', {}, state.message)];
      default:
        return state.answer.loaded ? [head, ...this.loaded(state.answer, state.busy)] : [head, this.notLoaded()];
    }
  }

  private notLoaded(): HTMLElement {
    return el(
      'div.pcard',
      {},
      el('p', {}, 'Run ', el('code', {}, LOAD_SOURCE), ' in this notebook to see its devices here.'),
      el('div.acts', {}, this.action('Load in this kernel', 'load', LOAD_SOURCE))
    );
  }

  private loaded(answer: DevicesAnswer, busy: ReadonlyMap<number, number>): HTMLElement[] {
    const devices = answer.devices ?? [];
    const plugins = answer.plugins ?? [];
    const broken = plugins.filter(p => p.status === 'MISSING_DEPS' || p.status === 'REFUSED');
    const cards = devices.map((device, i) => this.device(device, gaugeOf(answer, device, i), busy.get(device.index ?? i)));
    const loaded = plugins.filter(p => p.status === 'LOADED').length;
    const note = `${plugins.length} ${plugins.length === 1 ? 'plugin' : 'plugins'} found, ${loaded} loaded.`;
    return [
      ...(cards.length > 0 ? cards : [el('div.pcard.mut', {}, 'No device was found.')]),
      ...broken.map(p => this.broken(p)),
      el('div.pnote', {}, note)
    ];
  }

  private device(device: DeviceInfo, gauge: Gauge | undefined, busy: number | undefined): HTMLElement {
    const status = device.status ?? 'LOADED';
    const about = [
      device.kind,
      device.plugin ? `plugin ${device.plugin}${device.plugin_version ? ` ${device.plugin_version}` : ''}` : '',
      device.driver ? `driver ${device.driver}` : ''
    ];
    const mark = vendorMark(vendorLetters(device), device.vendor ?? device.driver ?? device.name ?? device.id);
    return el(
      'div.pcard',
      { 'data-device': device.id },
      el(
        'div.ptitle',
        {},
        mark,
        el('b', {}, device.id),
        el('span.pname', { title: device.name ?? '' }, device.name ?? ''),
        statusWord(status)
      ),
      el('div.small', {}, about.filter(Boolean).join(' · ')),
      chips(device.dtypes ?? []),
      status === 'READY' ? this.ready(device) : memoryRow(device, gauge),
      busy === undefined || status === 'READY' ? null : busyRow(busy, this.history.get(device.index ?? 0) ?? [])
    );
  }

  private ready(device: DeviceInfo): HTMLElement {
    const source = `import torch\ntorch.zeros(1, device="${device.id}")`;
    return el(
      'div.acts',
      {},
      this.action('Load in this kernel', `ready-${device.id}`, source),
      el('span.mut', {}, 'found, not yet used here')
    );
  }

  private broken(plugin: PluginInfo): HTMLElement {
    const missing = plugin.missing ?? [];
    const cause = plugin.reason ?? (missing.length > 0 ? `${missing.join(', ')} was not found` : 'no reason was given');
    const kind = plugin.status === 'REFUSED' ? 'bad' : 'warn';
    const again = button('Check again', () => void this.monitor.refresh());
    again.dataset.key = `again-${plugin.name}`;
    const copy = button('Copy details', () => void navigator.clipboard?.writeText(JSON.stringify(plugin, null, 1)));
    copy.dataset.key = `copy-${plugin.name}`;
    return el(
      'div.pcard',
      { 'data-plugin': plugin.name },
      el('div.ptitle', {}, el('b', {}, plugin.name), statusWord(plugin.status)),
      el('div.small', {}, [`plugin ${plugin.name} ${plugin.version ?? ''}`.trim(), plugin.path ?? ''].filter(Boolean).join(' · ')),
      el(
        `div.pcause.${kind}`,
        {},
        el('p', {}, el('span.mut', {}, 'Cause '), cause),
        el('p', {}, el('span.mut', {}, 'Cure '), cure(plugin)),
        el('div.acts', {}, again, copy)
      )
    );
  }

  private action(label: string, key: string, source: string): HTMLButtonElement {
    const made = button(
      label,
      () => {
        const { panel } = this.monitor;
        if (panel) {
          void runVisibly(panel, source).then(() => this.monitor.refresh());
        }
      },
      'bt.primary'
    );
    made.dataset.key = key;
    return made;
  }
}

function statusWord(status: string): HTMLElement {
  return el('span.pstatus', { 'data-status': status }, status);
}

function chips(dtypes: string[]): HTMLElement | null {
  if (dtypes.length === 0) {
    return null;
  }
  const known = new Set(dtypes.map(d => d.replace(/^torch\./, '')));
  const made = DTYPES.map(([name, chip]) => {
    const has = known.has(name);
    return el(has ? 'span.chip' : 'span.chip.no', { title: has ? name : `${name} is not supported` }, chip);
  });
  return el('div.chips', {}, ...made);
}

function memoryRow(device: DeviceInfo, gauge: Gauge | undefined): HTMLElement {
  const total = device.memory_total || gauge?.total || 0;
  const allocated = gauge?.allocated ?? 0;
  const reserved = Math.max(allocated, gauge?.reserved ?? 0);
  const share = (bytes: number) => (total > 0 ? `${Math.min(100, Math.max(bytes > 0 ? 1 : 0, (bytes / total) * 100))}%` : '0');
  const held = el('i.preserved');
  held.style.width = share(reserved);
  const used = el('i.pused');
  used.style.width = share(allocated);
  const text = formatBytesOf(allocated, total);
  const title = `${formatBytes(allocated)} allocated, ${formatBytes(reserved)} held, peak ${formatBytes(gauge?.peak ?? 0)}`;
  const bar = el(
    'span.pbar',
    { role: 'meter', 'aria-valuenow': allocated, 'aria-valuemin': 0, 'aria-valuemax': total, 'aria-label': title, title },
    held,
    used
  );
  return el('div.prow', {}, el('span.mut', {}, 'memory'), bar, el('span', {}, text));
}

/** A small curve of the last minute. */
function busyRow(share: number, past: number[]): HTMLElement {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', `0 0 ${HISTORY} 16`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('class', 'rfl-spark');
  const points = past.map((s, i) => `${HISTORY - past.length + i} ${(15 - s * 14).toFixed(1)}`);
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  line.setAttribute('d', points.length > 1 ? `M${points.join('L')}` : `M0 15H${HISTORY}`);
  svg.append(line);
  return el('div.prow', {}, el('span.mut', {}, 'busy'), el('span.pspark', {}, svg), el('span', {}, formatShare(share)));
}

function cure(plugin: PluginInfo): string {
  const missing = plugin.missing ?? [];
  if (plugin.status === 'MISSING_DEPS') {
    const what = missing.length > 0 ? missing.join(', ') : "the vendor's runtime";
    return `Install ${what} where the loader finds it, restart the kernel, then press Check again.`;
  }
  return `Install a build of ${plugin.name} that fits this torch_fl, or remove it, restart the kernel, then press Check again.`;
}
