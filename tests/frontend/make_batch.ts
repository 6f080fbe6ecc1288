/** Writes batches for the tests; the front end itself only reads them. */
import { BATCH_MAGIC, HEADER_BYTES, RECORD_BYTES, emptyRecord, type TraceRecord } from '../../fl_widgets/src/core/batch';

const FLOATS = ['begin', 'duration', 'bytes', 'copied'] as const;
const WORDS = ['name', 'kernel', 'reason', 'location', 'inner', 'forward', 'shapes', 'buffer', 'parent', 'correlation', 'thread'] as const;

/** A batch of records that differ from an empty one in the fields given. */
export function makeBatch(rows: Partial<TraceRecord>[], number = 0, now = 0): ArrayBuffer {
  const buffer = new ArrayBuffer(HEADER_BYTES + rows.length * RECORD_BYTES);
  const d = new DataView(buffer);
  d.setUint32(0, BATCH_MAGIC, true);
  d.setUint16(4, 1, true);
  d.setUint16(6, RECORD_BYTES, true);
  d.setUint32(8, rows.length, true);
  d.setUint32(12, number, true);
  d.setFloat64(16, now, true);
  rows.forEach((row, i) => {
    const r = { ...emptyRecord(), ...row };
    const at = HEADER_BYTES + i * RECORD_BYTES;
    FLOATS.forEach((key, k) => d.setFloat64(at + 8 * k, r[key], true));
    WORDS.forEach((key, k) => d.setUint32(at + 32 + 4 * k, r[key], true));
    d.setInt16(at + 76, r.device, true);
    d.setUint16(at + 78, r.stream, true);
    d.setUint8(at + 80, r.kind);
    d.setUint8(at + 81, r.tier);
    d.setUint16(at + 82, r.flags, true);
    d.setUint32(at + 84, r.count, true);
  });
  return buffer;
}
