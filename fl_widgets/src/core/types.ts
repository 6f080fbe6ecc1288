/** The members of the profile bundle and of live messages: docs/profile-format.md, version 1. */

export const BUNDLE_VERSION = 1;

export interface TierSums {
  native?: number;
  jit?: number;
  reference?: number;
  cpu?: number;
  view?: number;
}

export interface Summary {
  state: 'running' | 'done' | 'failed' | 'cut';
  failed_line?: number | null;
  error?: string | null;
  wall_us: number;
  busy?: Record<string, number>;
  peak_bytes?: Record<string, number>;
  memory_bytes?: Record<string, number>;
  op_time_us?: TierSums;
  op_count?: TierSums;
  copy_us?: number;
  copy_bytes?: number;
  wait_us?: number;
  events?: number;
  dropped?: number;
  overhead?: number | null;
  line?: number | null;
  compiling?: string | null;
  ops_per_second?: number | null;
  fell_back_100ms?: [number, number] | null;
}

export interface LineRow {
  line: number;
  source?: string;
  native_us?: number;
  jit_us?: number;
  reference_us?: number;
  cpu_us?: number;
  time_us: number;
  count?: number;
  backward_us?: number;
  copy_us?: number;
  wait_us?: number;
  bytes?: number;
  alloc_bytes?: number;
}

export type Reason = Partial<Record<'native' | 'jit' | 'reference' | 'cpu' | 'ran', string>>;

export interface FallbackRow {
  op: string;
  tier: string;
  kernel?: string;
  reason?: Reason | null;
  device?: string;
  count: number;
  time_us: number;
  copied_bytes?: number;
  lines?: number[];
}

export interface BufferRow {
  id: number;
  label: string;
  device: string;
  bytes: number;
  begin_us: number;
  end_us: number | null;
  parent?: number | null;
  view?: boolean;
  line?: number | null;
  op?: string | null;
}

export interface LeakRow {
  line: number | null;
  count: number;
  bytes: number;
  label?: string;
  kept_by?: string | null;
}

export interface Tables {
  lines?: LineRow[];
  forward_lines?: LineRow[];
  fallback?: FallbackRow[];
  buffers?: BufferRow[];
  buffers_total?: { blocks: number; views: number; shown: number };
  memory_curve?: Record<string, [number, number][]>;
  peak?: { label: string; bytes: number; device: string }[];
  leaks?: LeakRow[];
}

export interface DeviceInfo {
  id: string;
  index?: number;
  kind?: string;
  name?: string;
  vendor?: string;
  mark?: string;
  driver?: string;
  memory_total?: number;
  dtypes?: string[];
  plugin?: string;
  plugin_version?: string;
  status?: string;
}

export interface Bundle {
  version: number;
  profile?: string;
  created?: string;
  torch_fl?: string;
  torch?: string;
  label?: string | null;
  source?: string;
  devices?: DeviceInfo[];
  summary: Summary;
  tables?: Tables;
  strings?: Record<string, string>;
  batches?: string[];
  thinned?: boolean;
}

export interface BatchMessage {
  type: 'batch';
  version: number;
  number: number;
  sent_ms: number;
  strings?: Record<string, string>;
  summary?: Summary;
  tables?: Tables;
  devices?: DeviceInfo[];
  source?: string;
}

export type LiveMessage = BatchMessage | { type: 'bundle'; bundle: Bundle } | { type: 'end' };
