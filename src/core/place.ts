/** Finds the line and column of an error in a text. Pure. */
import { Buffer } from 'node:buffer';
import type { Place } from './errors.ts';

/**
 * The place of an offset in a text.
 * @param file name of the text
 * @param from start of the wrong part, in UTF-16 units from the beginning
 * @param to end of the wrong part; the place ends at the end of its line at the latest
 */
export function findPlace(file: string, text: string, from: number, to = from + 1): Place {
  const before = text.slice(0, from);
  const start = before.lastIndexOf('\n') + 1;
  const line = before.split('\n').length;
  const shown = /^[^\r\n]*/.exec(text.slice(start))?.[0] ?? '';
  const length = Math.max(1, Math.min(to - from, shown.length - (from - start)));
  return { file, line, column: from - start + 1, length, text: shown };
}

/**
 * Where ClickHouse stopped, according to its message. It counts bytes, from 1. Empty if the message gives no position.
 */
export function findSqlPlaces(sql: string, message: string): readonly Place[] {
  const position = Number(/(?:failed at|see) position (\d+)/.exec(message)?.[1] ?? 0);
  const bytes = Buffer.from(sql);
  if (position < 1 || position > bytes.length + 1) return [];
  const from = bytes.subarray(0, position - 1).toString().length;
  const word = /^\w*/.exec(sql.slice(from))?.[0] ?? '';
  return [findPlace('SQL', sql, from, from + word.length)];
}
