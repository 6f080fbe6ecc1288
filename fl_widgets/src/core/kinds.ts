/** Numbers of the trace (core/include/ral/trace_format.h) and the names, letters and colours that stand for them. */

export const Kind = {
  op: 1,
  kernel: 2,
  copy: 3,
  alloc: 4,
  free: 5,
  view: 6,
  sync: 7,
  decision: 8,
  compile: 9,
  mark: 10
} as const;

export const Tier = { none: 0, native: 1, jit: 2, reference: 3, cpu: 4, view: 5 } as const;

export const Flag = {
  backward: 0x1,
  host: 0x2,
  userRange: 0x4,
  snapshot: 0x8,
  failed: 0x10,
  noDeviceTime: 0x20
} as const;

/** The four tiers that run a kernel, in the order of the fallback chain. */
export const TIER_NAMES = ['native', 'jit', 'reference', 'cpu'] as const;
export type TierName = (typeof TIER_NAMES)[number];

/** Index in TIER_NAMES of a record's tier; -1 for a view or none. */
export function tierIndex(tier: number): number {
  return tier >= Tier.native && tier <= Tier.cpu ? tier - 1 : -1;
}

export const TIER_LETTERS: Record<TierName, string> = {
  native: 'N',
  jit: 'J',
  reference: 'R',
  cpu: 'C'
};

/** Where a tier runs, in the words of the details card. */
export const TIER_PLACE: Record<TierName, string> = {
  native: 'vendor kernel',
  jit: 'compiled on demand',
  reference: 'C++ on the host',
  cpu: 'PyTorch on the host'
};

export const COPY_NAMES: Record<string, string> = {
  host_to_device: 'host to device',
  device_to_host: 'device to host',
  on_device: 'on the device',
  device_to_device: 'device to device'
};

/** Op names too long for a bar. */
const SHORT: Record<string, string> = {
  convolution: 'conv2d',
  convolution_backward: 'conv_bwd',
  convolution_overrideable: 'conv2d',
  convolution_backward_overrideable: 'conv_bwd',
  native_batch_norm: 'batch_norm',
  native_batch_norm_backward: 'bn_bwd',
  native_layer_norm: 'layer_norm',
  native_layer_norm_backward: 'ln_bwd',
  _log_softmax: 'log_softmax'
};

/** The name of an op as a bar bears it. */
export function shortName(op: string): string {
  return (
    SHORT[op] ??
    op
      .replace('_with_indices', '')
      .replace(/_backward(_data)?$/, '_bwd')
      .replace(/^_(?=[a-z])/, '')
  );
}
