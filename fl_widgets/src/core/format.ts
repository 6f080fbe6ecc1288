/** Numbers as people read them: the rules of "Numbers" in the visual language. Times come in microseconds. */

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;
const THIN_SPACE = '\u2009';

/** Three significant figures: `600 µs`, `67.4 ms`, `1.44 s`; zero reads `none`. */
export function formatTime(us: number): string {
  if (!(us > 0)) {
    return 'none';
  }
  if (us < 0.9995) {
    return `${significant(us * 1000)} ns`;
  }
  if (us < 999.5) {
    return `${significant(us)} µs`;
  }
  if (us < 999.5e3) {
    return `${significant(us / 1e3)} ms`;
  }
  return us < 600e6 ? `${significant(us / 1e6)} s` : `${thousands(Math.round(us / 1e6))} s`;
}

/** A moment in the cell, in ms with three decimals. */
export function formatMoment(us: number): string {
  return `${(us / 1e3).toFixed(3)} ms`;
}

/** Powers of 1024, two decimals under 10 MiB, else one; zero reads `none`. */
export function formatBytes(bytes: number): string {
  if (!(bytes > 0)) {
    return 'none';
  }
  if (bytes < KIB) {
    return `${Math.round(bytes)} B`;
  }
  if (bytes < MIB) {
    const kib = bytes / KIB;
    return `${kib < 9.95 ? kib.toFixed(1) : kib.toFixed(0)} KiB`;
  }
  if (bytes < GIB) {
    const mib = bytes / MIB;
    return `${mib < 9.995 ? mib.toFixed(2) : mib.toFixed(1)} MiB`;
  }
  const gib = bytes / GIB;
  return `${gib < 9.995 ? gib.toFixed(2) : gib.toFixed(1)} GiB`;
}

/** `1.20 of 31.0 GiB`: the unit once where both have it. */
export function formatBytesOf(part: number, whole: number): string {
  const [a, b] = [formatBytes(part), formatBytes(whole)];
  const unit = b.slice(b.lastIndexOf(' '));
  return a.endsWith(unit) ? `${a.slice(0, -unit.length)} of ${b}` : `${a} of ${b}`;
}

/** Bytes in `us` microseconds as `GB/s`, powers of 1000. */
export function formatRate(bytes: number, us: number): string {
  const rate = us > 0 && bytes > 0 ? bytes / us / 1e3 : 0;
  return rate > 0 ? `${rate < 0.01 ? '< 0.01' : rate.toFixed(2)} GB/s` : '';
}

/** `55 %`, one decimal under 10 %, `< 0.1 %`; `share` is 0 to 1. */
export function formatShare(share: number): string {
  const percent = share * 100;
  if (!(percent > 0)) {
    return '0 %';
  }
  if (percent < 0.1) {
    return '< 0.1 %';
  }
  return `${percent < 9.95 ? percent.toFixed(1) : percent.toFixed(0)} %`;
}

/** Thousands parted by a thin space. */
export function thousands(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+(?!\d))/g, THIN_SPACE);
}

/** `1 chain`, `24 chains`. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${thousands(n)} ${n === 1 ? one : many}`;
}

function significant(value: number): string {
  if (value >= 99.95) {
    return value.toFixed(0);
  }
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

export interface Axis {
  ticks: number[];
  label: (us: number) => string;
}

/** Ticks of an axis from `a` to `b` microseconds, about `n` of them, all in one unit. */
export function axis(a: number, b: number, n: number): Axis {
  const raw = Math.max(1e-3, (b - a) / Math.max(1, n));
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw * 0.999) ?? raw;
  const ticks: number[] = [];
  for (let i = Math.ceil(a / step - 1e-9); i * step <= b; i++) {
    ticks.push(i * step);
  }
  const [unit, divisor] = b >= 10e6 && step >= 1e5 ? ['s', 1e6] : step >= 100 ? ['ms', 1e3] : ['µs', 1];
  const decimals = Math.max(0, -Math.floor(Math.log10(step / (divisor as number)) + 1e-9));
  return { ticks, label: us => `${(us / (divisor as number)).toFixed(decimals)} ${unit}` };
}

/** Bytes for a curve's scale: a round number at or above `bytes`, and its label. */
export function scaleTop(bytes: number): number {
  if (bytes <= 0) {
    return KIB;
  }
  const unit = bytes >= GIB ? GIB : bytes >= MIB ? MIB : bytes >= KIB ? KIB : 1;
  const value = bytes / unit;
  const tops = [1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 200, 256, 320, 400, 512, 640, 800, 1024];
  return (tops.find(t => t >= value) ?? 1024) * unit;
}

/** A scale's label: no decimals where it is whole. */
export function formatScale(bytes: number): string {
  const units: [number, string][] = [
    [GIB, 'GiB'],
    [MIB, 'MiB'],
    [KIB, 'KiB']
  ];
  for (const [size, name] of units) {
    if (bytes >= size) {
      const value = bytes / size;
      return `${Number.isInteger(value) ? value : value.toFixed(1)} ${name}`;
    }
  }
  return bytes === 0 ? '0' : `${bytes} B`;
}
