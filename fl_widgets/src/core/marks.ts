/** The small signs of the visual language: tier letters, vendor marks, stacked bars, the legend. */
import { el } from './dom';
import { formatTime } from './format';
import { TIER_LETTERS, TIER_NAMES, type TierName } from './kinds';
import type { DeviceInfo } from './types';

const VENDOR_MARKS: [RegExp, string][] = [
  [/pocl|portable/i, 'Po'],
  [/intel/i, 'In'],
  [/amd|advanced micro/i, 'Am'],
  [/ascend|huawei/i, 'As'],
  [/cambricon/i, 'Ca'],
  [/nvidia/i, 'Nv']
];

/** Two letters for the vendor of a device's driver. */
export function vendorLetters(device: DeviceInfo): string {
  if (device.mark) {
    return device.mark;
  }
  const text = `${device.driver ?? ''} ${device.name ?? ''} ${device.vendor ?? ''}`;
  const known = VENDOR_MARKS.find(([pattern]) => pattern.test(text));
  const name = (device.name ?? device.id).replace(/[^A-Za-z]/g, '') || 'Xx';
  return known ? known[1] : name[0].toUpperCase() + (name[1] ?? '').toLowerCase();
}

/** The outlined two-letter box that stands before `ral:N`. */
export function vendorMark(letters: string, label: string): HTMLElement {
  return el('span.vm', { role: 'img', 'aria-label': label, title: label }, letters);
}

/** A tier's letter on its colour; `state` is how the chain treated the tier. */
export function tierMark(tier: TierName, state: 'ran' | 'passed' | 'untried' = 'ran'): HTMLElement {
  return el(`span.k.${tier}.${state}`, { title: tier }, TIER_LETTERS[tier]);
}

/** A stacked bar of tiers: `values` in the order of TIER_NAMES, `whole` the value of its full width. */
export function tierBar(values: number[], whole: number, width: number, height: number): HTMLElement {
  const label = TIER_NAMES.map((t, i) => (values[i] > 0 ? `${t} ${formatTime(values[i])}` : ''))
    .filter(Boolean)
    .join(', ');
  const bar = el('span.bar', { role: 'img', 'aria-label': label || 'none', title: label });
  bar.style.width = `${width}px`;
  bar.style.height = `${height}px`;
  TIER_NAMES.forEach((tier, i) => {
    if (values[i] > 0 && whole > 0) {
      const part = el(`b.p-${tier}`);
      part.style.width = `${Math.max(1, (values[i] / whole) * width).toFixed(1)}px`;
      bar.append(part);
    }
  });
  return bar;
}

export function legend(): HTMLElement {
  return el(
    'span.lg',
    {},
    ...TIER_NAMES.map(tier => el('span', {}, tierMark(tier), tier)),
    el('span', {}, el('i.copy'), 'copy'),
    el('span', {}, el('i.wait'), 'wait')
  );
}
