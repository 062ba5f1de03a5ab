/** Batches of whole lines out of a stream of bytes. That they load is in `server-load.external.test.ts`. */
import { describe, expect, test } from 'vitest';
import { splitLines } from '../../src/service/data/lines.ts';

async function* cut(text: string, size: number): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function split(text: string, size: number, limits: { batchBytes: number; hasQuotes?: boolean }) {
  const batches: string[] = [];
  for await (const batch of splitLines(cut(text, size), { maxLineBytes: 40, hasQuotes: false, ...limits }))
    batches.push(Buffer.from(batch).toString());
  return batches;
}

const LINES = 'one\ntwo é\n\nfour, longer than the others\nfive\n';
const CSV = 'id,text\n1,"a\nb"\n2,"say ""x""\n\n"\n3,plain\n';

describe('lines', () => {
  test('of any cut of the stream, the batches joined are the stream and each ends with a line', async () => {
    for (let size = 1; size <= LINES.length + 2; size += 1) {
      for (const batchBytes of [1, 5, 12, 1_000]) {
        const batches = await split(LINES, size, { batchBytes });
        expect(batches.join('')).toBe(LINES);
        expect(batches.filter((batch) => !batch.endsWith('\n'))).toEqual([]);
      }
    }
  });

  test('a batch is given out once it is large enough', async () => {
    expect(await split('a\nb\nc\nd\n', 1, { batchBytes: 4 })).toEqual(['a\nb\n', 'c\nd\n']);
  });

  test('the last line gets a line end where it has none', async () => {
    expect(await split('a\nb', 2, { batchBytes: 100 })).toEqual(['a\nb\n']);
  });

  test('an empty stream has no batches', async () => {
    expect(await split('', 1, { batchBytes: 1 })).toEqual([]);
  });

  test('a line end inside a quoted value ends no line, wherever the stream is cut', async () => {
    for (let size = 1; size <= CSV.length; size += 1) {
      const batches = await split(CSV, size, { batchBytes: 1, hasQuotes: true });
      expect(batches.join('')).toBe(CSV);
      for (const batch of batches) expect(batch.split('"').length % 2).toBe(1);
    }
    expect(await split(CSV, 1, { batchBytes: 1, hasQuotes: true })).toEqual([
      'id,text\n',
      '1,"a\nb"\n',
      '2,"say ""x""\n\n"\n',
      '3,plain\n',
    ]);
  });

  test('a line longer than allowed is refused before it fills the memory', async () => {
    await expect(split('x'.repeat(50), 10, { batchBytes: 1 })).rejects.toMatchObject({ code: 'DATA_INVALID' });
    await expect(split(`"${'\n'.repeat(50)}`, 10, { batchBytes: 1, hasQuotes: true })).rejects.toMatchObject({
      hint: expect.stringContaining('quote'),
    });
  });
});
