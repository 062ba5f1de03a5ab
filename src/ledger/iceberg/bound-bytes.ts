/**
 * Bounds of a column as bytes. Source: the Iceberg table spec, "Appendix D: Single-value serialization", and
 * "Manifests" (`-0.0` and `+0.0`). Pure.
 */
import type { TableType } from './table-schema.ts';

const DAY_MS = 86_400_000;

/**
 * @param value as in a manifest's `statistics`: of times it has milliseconds, so an upper bound is the end of that
 *   millisecond
 */
export function encodeBound(type: TableType, value: string | number, end: 'lower' | 'upper'): Buffer {
  const bytes = Buffer.alloc(8);
  switch (type) {
    case 'string':
      return Buffer.from(String(value), 'utf8');
    case 'int':
      bytes.writeInt32LE(Number(value));
      return bytes.subarray(0, 4);
    case 'date':
      return encodeDays(String(value));
    case 'long':
      bytes.writeBigInt64LE(BigInt(value));
      return bytes;
    case 'double':
      bytes.writeDoubleLE(Number(value) === 0 ? (end === 'lower' ? -0 : 0) : Number(value));
      return bytes;
    case 'timestamp':
    case 'timestamptz': {
      const text = String(value);
      const millis = BigInt(Date.parse(text.endsWith('Z') ? text : `${text}Z`));
      bytes.writeBigInt64LE(millis * 1000n + (end === 'upper' ? 999n : 0n));
      return bytes;
    }
    default:
      return type satisfies never;
  }
}

/** Days since 1970-01-01. */
export function countDays(date: string): number {
  return Date.parse(`${date}T00:00:00Z`) / DAY_MS;
}

function encodeDays(date: string): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(countDays(date));
  return bytes;
}
