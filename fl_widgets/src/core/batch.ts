/** Decodes one binary batch of records, version 1 (docs/profile-format.md). */

export const BATCH_MAGIC = 0x424c4152;
export const BATCH_VERSION = 1;
export const HEADER_BYTES = 64;
export const RECORD_BYTES = 88;

/** One record. Times are microseconds since the cell began; ids of strings are 0 for none. */
export interface TraceRecord {
  begin: number;
  duration: number;
  bytes: number;
  copied: number;
  name: number;
  kernel: number;
  reason: number;
  location: number;
  inner: number;
  forward: number;
  shapes: number;
  buffer: number;
  parent: number;
  correlation: number;
  thread: number;
  device: number;
  stream: number;
  kind: number;
  tier: number;
  flags: number;
  count: number;
}

export interface BatchHeader {
  records: number;
  number: number;
  now: number;
  dropped: number;
  events: number;
}

export class BatchError extends Error {}

/** A decoded batch: its header, and its records read on demand from the bytes that came. */
export class Batch {
  readonly header: BatchHeader;
  private readonly data: DataView;
  private readonly recordBytes: number;

  /** Raises BatchError where the bytes are not a batch of this version. */
  constructor(bytes: ArrayBuffer | ArrayBufferView) {
    const data =
      bytes instanceof ArrayBuffer ? new DataView(bytes) : new DataView(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength);
    if (data.byteLength < HEADER_BYTES) {
      throw new BatchError(`a batch of ${data.byteLength} bytes is shorter than its header of ${HEADER_BYTES}`);
    }
    const magic = data.getUint32(0, true);
    if (magic !== BATCH_MAGIC) {
      throw new BatchError(`not a batch: magic 0x${magic.toString(16)}`);
    }
    const version = data.getUint16(4, true);
    if (version > BATCH_VERSION) {
      throw new BatchError(`this batch has version ${version}; this reader knows version ${BATCH_VERSION}`);
    }
    const recordBytes = data.getUint16(6, true);
    const records = data.getUint32(8, true);
    if (recordBytes < RECORD_BYTES) {
      throw new BatchError(`records of ${recordBytes} bytes are shorter than ${RECORD_BYTES}`);
    }
    if (HEADER_BYTES + records * recordBytes > data.byteLength) {
      throw new BatchError(`${records} records do not fit in ${data.byteLength} bytes`);
    }
    this.data = data;
    this.recordBytes = recordBytes;
    this.header = {
      records,
      number: data.getUint32(12, true),
      now: data.getFloat64(16, true),
      dropped: data.getFloat64(24, true),
      events: data.getFloat64(32, true)
    };
  }

  get length(): number {
    return this.header.records;
  }

  /** Record `i`, read into `into` so that a loop makes no garbage. */
  read(i: number, into: TraceRecord = emptyRecord()): TraceRecord {
    const d = this.data;
    const at = HEADER_BYTES + i * this.recordBytes;
    into.begin = d.getFloat64(at, true);
    into.duration = d.getFloat64(at + 8, true);
    into.bytes = d.getFloat64(at + 16, true);
    into.copied = d.getFloat64(at + 24, true);
    into.name = d.getUint32(at + 32, true);
    into.kernel = d.getUint32(at + 36, true);
    into.reason = d.getUint32(at + 40, true);
    into.location = d.getUint32(at + 44, true);
    into.inner = d.getUint32(at + 48, true);
    into.forward = d.getUint32(at + 52, true);
    into.shapes = d.getUint32(at + 56, true);
    into.buffer = d.getUint32(at + 60, true);
    into.parent = d.getUint32(at + 64, true);
    into.correlation = d.getUint32(at + 68, true);
    into.thread = d.getUint32(at + 72, true);
    into.device = d.getInt16(at + 76, true);
    into.stream = d.getUint16(at + 78, true);
    into.kind = d.getUint8(at + 80);
    into.tier = d.getUint8(at + 81);
    into.flags = d.getUint16(at + 82, true);
    into.count = d.getUint32(at + 84, true);
    return into;
  }
}

export function emptyRecord(): TraceRecord {
  return {
    begin: 0,
    duration: 0,
    bytes: 0,
    copied: 0,
    name: 0,
    kernel: 0,
    reason: 0,
    location: 0,
    inner: 0,
    forward: 0,
    shapes: 0,
    buffer: 0,
    parent: 0,
    correlation: 0,
    thread: 0,
    device: -1,
    stream: 0,
    kind: 0,
    tier: 0,
    flags: 0,
    count: 1
  };
}

/** Bytes of a base64 text, as the bundle holds its batches. */
export function fromBase64(text: string): Uint8Array {
  const binary = atob(text);
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) {
    out[i] = binary.charCodeAt(i);
  }
  return out;
}
