/**
 * The bounded store of one profile: records, strings, tables, summary and gaps. One store serves
 * every view of the profile; views listen with `onChange` and read whatever they show.
 */
import { Batch, emptyRecord, fromBase64, type TraceRecord } from './batch';
import { Columns } from './columns';
import { Flag, Kind, Tier, tierIndex } from './kinds';
import { Lane } from './lane';
import { LineSpans } from './line_spans';
import { MemoryTail } from './memory_tail';
import { COPY_CHANNEL, OverviewBins } from './overview_bins';
import { BUNDLE_VERSION, type BatchMessage, type Bundle, type DeviceInfo, type LiveMessage, type Summary, type Tables } from './types';

/** Records kept; older ones stay in the overview and the tables. */
export const MAX_RECORDS = 400_000;
const MAX_RANGES = 500;

/** Batches `count` in number were lost somewhere between `from` and `to`. */
export interface Gap {
  from: number;
  to: number;
  count: number;
}

/** A torch.profiler.record_function range of the cell. */
export interface UserRange {
  name: string;
  begin: number;
  end: number;
}

export interface Frame {
  number: number;
  sentMs: number;
}

export class ProfileStore {
  readonly columns: Columns;
  readonly overview = new OverviewBins();
  readonly spans = new LineSpans();
  readonly lanes = new Map<string, Lane>();
  readonly gaps: Gap[] = [];
  readonly ranges: UserRange[] = [];
  /** Threads that must not share a host lane pair, because their work overlapped. */
  readonly hostThreads = new Map<number, { row: number; lastEnd: number }>();
  devices: DeviceInfo[] = [];
  summary: Summary = { state: 'running', wall_us: 0 };
  tables: Tables = {};
  source: string[] = [];
  thinned = false;
  /** A sentence instead of a view: a newer version, a damaged batch. */
  refusal: string | null = null;
  /** The last live message, for measuring event to paint. */
  lastFrame: Frame | null = null;
  now = 0;
  forgotten = 0;
  revision = 0;
  tablesRevision = 0;
  private readonly strings = new Map<number, string>();
  private readonly lineCache = new Map<number, number>();
  private readonly openCompiles = new Map<number, number>();
  private readonly listeners = new Set<() => void>();
  private readonly memoryTail = new MemoryTail();
  private readonly curves = new Map<string, { revision: number; points: [number, number][] }>();
  private nextNumber = -1;
  /** True while the records here came live from batch 0 on without a gap. */
  private exact = false;

  constructor(capacity = MAX_RECORDS) {
    this.columns = new Columns(capacity);
  }

  /** Calls `listener` after every change; returns the call that ends it. */
  onChange(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  get running(): boolean {
    return this.summary.state === 'running';
  }

  /** Microseconds from the cell's begin to where its trace ends so far. */
  get end(): number {
    return Math.max(this.now, this.running ? 0 : this.summary.wall_us, 1);
  }

  text(id: number): string {
    return id === 0 ? '' : (this.strings.get(id) ?? `string ${id}`);
  }

  /** False for a string whose text has not come yet. */
  knows(id: number): boolean {
    return id === 0 || this.strings.has(id);
  }

  /** Line number of a location "<hash>:<line>"; 0 for none. */
  line(location: number): number {
    let line = this.lineCache.get(location);
    if (line === undefined) {
      const text = this.strings.get(location) ?? '';
      line = Number(text.slice(text.lastIndexOf(':') + 1)) || 0;
      if (text !== '') {
        this.lineCache.set(location, line);
      }
    }
    return line;
  }

  sourceLine(line: number): string {
    return (this.source[line - 1] ?? '').trim();
  }

  /** Devices that have a memory curve. */
  memoryDevices(): string[] {
    return [...new Set([...Object.keys(this.tables.memory_curve ?? {}), ...this.memoryTail.devices()])].sort();
  }

  /** Bytes in live blocks over time: steps [microseconds, bytes]. */
  memoryCurve(device: string): [number, number][] {
    const known = this.curves.get(device);
    if (known?.revision === this.revision) {
      return known.points;
    }
    const table = this.tables.memory_curve?.[device] ?? [];
    const points = this.running || this.summary.state === 'cut' ? this.memoryTail.extend(device, table) : table;
    this.curves.set(device, { revision: this.revision, points });
    return points;
  }

  /** Takes in one live message; `buffers` are the comm's binary parts. */
  receive(message: LiveMessage, buffers: readonly (ArrayBuffer | ArrayBufferView)[] = []): void {
    if (message.type === 'batch') {
      this.receiveBatch(message, buffers);
    } else if (message.type === 'bundle') {
      this.load(message.bundle);
      return;
    } else if (message.type === 'end') {
      this.nextNumber = -1;
      if (this.running) {
        this.summary = { ...this.summary, state: 'done' };
      }
    }
    this.changed();
  }

  /**
   * Takes in a whole bundle. Where live batches of the same profile come in without a gap the
   * records here are finer than the bundle's, so only its sums are taken.
   */
  load(bundle: Bundle): void {
    if (typeof bundle?.version !== 'number' || bundle.version > BUNDLE_VERSION) {
      this.refusal =
        `This profile has version ${String(bundle?.version)}; this viewer knows version ${BUNDLE_VERSION}. ` + 'Update torch-fl to see it.';
      this.changed();
      return;
    }
    this.refusal = null;
    const older = this.running && this.lastFrame !== null && bundle.summary.wall_us < this.now;
    this.addStrings(bundle.strings);
    this.devices = bundle.devices ?? this.devices;
    this.source = bundle.source !== undefined ? bundle.source.split('\n') : this.source;
    if (!older || bundle.summary.state !== 'running') {
      this.summary = bundle.summary;
      this.tables = bundle.tables ?? {};
      this.tablesRevision++;
    }
    // Where the oldest records had to go, the whole cell in coarse says more at the end than its last part in fine.
    if (!this.exact || (this.forgotten > 0 && bundle.summary.state !== 'running')) {
      this.clearRecords();
      this.thinned = bundle.thinned ?? false;
      for (const text of bundle.batches ?? []) {
        this.append(new Batch(fromBase64(text)));
      }
    }
    this.now = Math.max(this.now, bundle.summary.wall_us);
    this.changed();
  }

  /** The kernel is gone while its cell ran: what came is all there is. */
  cutOff(): void {
    if (this.running) {
      this.summary = { ...this.summary, state: 'cut', wall_us: Math.max(this.now, this.summary.wall_us) };
      this.changed();
    }
  }

  /** Appends the records of one batch without telling the listeners. */
  append(batch: Batch): void {
    const record = emptyRecord();
    const whole = this.isWhole(batch, record);
    for (let i = 0; i < batch.length; i++) {
      this.addRecord(batch.read(i, record), whole);
    }
    this.now = Math.max(this.now, batch.header.now);
  }

  /** Where records were merged, births and deaths of blocks no longer pair up: the summary's bytes must do. */
  private isWhole(batch: Batch, record: TraceRecord): boolean {
    for (let i = 0; i < batch.length; i++) {
      if (batch.read(i, record).count > 1) {
        return false;
      }
    }
    return true;
  }

  addStrings(strings: Record<string, string> | undefined): void {
    for (const [id, text] of Object.entries(strings ?? {})) {
      this.strings.set(Number(id), text);
    }
  }

  lane(key: string): Lane {
    let lane = this.lanes.get(key);
    if (!lane) {
      lane = new Lane(key, this.columns);
      this.lanes.set(key, lane);
    }
    return lane;
  }

  /** Key of the lane that draws the record at `index`; '' where none does. */
  laneKey(index: number): string {
    const c = this.columns;
    return laneKeyOf(c.kind[index], c.tier[index], c.flags[index], c.device[index], c.stream[index], c.thread[index]);
  }

  private receiveBatch(message: BatchMessage, buffers: readonly (ArrayBuffer | ArrayBufferView)[]): void {
    if (message.version > BUNDLE_VERSION) {
      this.refusal = `Live data has version ${message.version}; this viewer knows version ${BUNDLE_VERSION}. Update torch-fl.`;
      return;
    }
    this.addStrings(message.strings);
    this.summary = message.summary ?? this.summary;
    this.devices = message.devices ?? this.devices;
    this.source = message.source !== undefined ? message.source.split('\n') : this.source;
    if (message.tables) {
      this.tables = { ...this.tables, ...message.tables };
      this.tablesRevision++;
    }
    const before = this.now;
    if (buffers.length > 0) {
      const batch = new Batch(buffers[0]);
      this.noteGap(message.number, before, batch);
      this.append(batch);
    }
    this.settleMemory(message);
    this.lastFrame = { number: message.number, sentMs: message.sent_ms };
  }

  private settleMemory(message: BatchMessage): void {
    for (const [device, curve] of Object.entries(message.tables?.memory_curve ?? {})) {
      this.memoryTail.dropBefore(device, curve.length > 0 ? curve[curve.length - 1][0] : 0);
    }
    for (const [device, bytes] of Object.entries(message.summary?.memory_bytes ?? {})) {
      this.memoryTail.set(device, this.now, bytes);
    }
  }

  private noteGap(number: number, before: number, batch: Batch): void {
    if (this.lastFrame === null) {
      this.exact = number === 0;
    }
    const expected = this.nextNumber < 0 ? (this.columns.length === 0 ? 0 : number) : this.nextNumber;
    if (number > expected) {
      this.exact = false;
      const first = batch.length > 0 ? batch.read(0).begin : batch.header.now;
      this.gaps.push({ from: before, to: Math.max(before, Math.min(first, batch.header.now)), count: number - expected });
    }
    this.nextNumber = number + 1;
  }

  private addRecord(r: TraceRecord, whole: boolean): void {
    if (r.kind === Kind.compile && this.closeCompile(r)) {
      return;
    }
    const id = this.columns.append(r, () => this.forgetOldest());
    if (whole) {
      this.memoryTail.add(r);
    }
    const end = r.begin + r.duration;
    const tier = tierIndex(r.tier);
    if (r.kind === Kind.kernel && tier >= 0) {
      this.overview.add(tier, r.begin, end);
    } else if (r.kind === Kind.copy) {
      this.overview.add(COPY_CHANNEL, r.begin, end);
    }
    const key = laneKeyOf(r.kind, r.tier, r.flags, r.device, r.stream, r.thread);
    if (key !== '') {
      this.lane(key).push(id);
    }
    if (key.startsWith('host:')) {
      this.placeThread(r.thread, r.begin, end);
    }
    if (r.kind === Kind.compile && r.duration <= 0) {
      this.openCompiles.set(r.name, id);
    }
    if (r.kind === Kind.op && (r.flags & Flag.userRange) !== 0) {
      this.addRange(r, end);
    } else if (r.location !== 0 && (r.kind === Kind.op || r.kind === Kind.sync || (r.flags & Flag.host) !== 0)) {
      this.spans.add(r.begin, end, this.line(r.location));
    }
  }

  private addRange(r: TraceRecord, end: number): void {
    const name = this.text(r.name);
    // Names with '#' are PyTorch's own (Optimizer.step#Adam.step, enumerate(DataLoader)#...).
    if (this.ranges.length < MAX_RANGES && !name.includes('#')) {
      this.ranges.push({ name, begin: r.begin, end });
      this.ranges.sort((a, b) => a.begin - b.begin);
    }
  }

  /** The finished record of a compile closes the open one written at its begin. */
  private closeCompile(r: TraceRecord): boolean {
    const open = this.openCompiles.get(r.name);
    if (r.duration <= 0 || open === undefined || !this.columns.has(open)) {
      return false;
    }
    const index = open - this.columns.base;
    this.columns.begin[index] = r.begin;
    this.columns.end[index] = r.begin + r.duration;
    this.openCompiles.delete(r.name);
    this.lane(this.laneKey(index)).touch();
    return true;
  }

  /** Threads share host lane pair 0 until their work overlaps; then the later one gets its own. */
  private placeThread(thread: number, begin: number, end: number): void {
    let place = this.hostThreads.get(thread);
    if (!place) {
      place = { row: 0, lastEnd: -Infinity };
      this.hostThreads.set(thread, place);
    }
    for (const [other, at] of this.hostThreads) {
      if (other !== thread && at.row === place.row && at.lastEnd > begin + 20 && end - begin > 20) {
        place.row = Math.min(3, 1 + Math.max(...[...this.hostThreads.values()].map(p => p.row)));
        break;
      }
    }
    place.lastEnd = Math.max(place.lastEnd, end);
  }

  private forgetOldest(): void {
    const base = this.columns.base;
    this.forgotten = base;
    this.lanes.forEach(lane => lane.dropBefore(base));
  }

  private clearRecords(): void {
    this.columns.clear();
    this.lanes.clear();
    this.overview.clear();
    this.spans.clear();
    this.hostThreads.clear();
    this.openCompiles.clear();
    this.memoryTail.clear();
    this.gaps.length = 0;
    this.ranges.length = 0;
    this.forgotten = 0;
  }

  private changed(): void {
    this.revision++;
    this.listeners.forEach(listener => listener());
  }
}

function laneKeyOf(kind: number, tier: number, flags: number, device: number, stream: number, thread: number): string {
  const onHost = (flags & Flag.host) !== 0 || tier === Tier.reference || tier === Tier.cpu || device < 0;
  switch (kind) {
    case Kind.kernel:
      return onHost || tier === Tier.view ? `host:${thread}` : `stream:${device}:${stream}`;
    case Kind.sync:
      return `host:${thread}`;
    case Kind.view:
      return (flags & Flag.snapshot) !== 0 ? '' : `host:${thread}`;
    case Kind.copy:
      return `copy:${device}`;
    case Kind.compile:
      return `compile:${device}`;
    default:
      return '';
  }
}
