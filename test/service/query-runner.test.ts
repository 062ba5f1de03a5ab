/**
 * Lines of rows to the inside of a JSON array: wherever the engine's bytes are cut, with and without a limit; and how much
 * waits for callers who do not read. Over HTTP, with the engine's own bytes, it is part of `contract.test.ts` and
 * `answers.test.ts`.
 */
import { describe, expect, test, vi } from 'vitest';
import type { PooledEngine, PoolRequest } from '../../src/engine/pool.ts';
import type { Backend } from '../../src/service/backend.ts';
import { createQueryRunner, writeRows } from '../../src/service/historical/query-runner.ts';

/** Line ends, quotes and commas inside of values, an empty value, and characters of one to four bytes. */
const ROWS = [
  { id: 'a', n: 1 },
  { id: 'line\nend, "quoted" \\ \r\n]},\t{', n: -0.5 },
  { id: '', n: null },
  { id: 'é€😀\u2028', n: 1e300 },
];
const LINES = toLines(ROWS);

function toLines(rows: readonly object[]): Buffer {
  return Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
}

/** Copies, for the stream writes into its pieces. */
function cut(bytes: Buffer, ...places: readonly number[]): readonly Uint8Array[] {
  const bounds = [0, ...places, bytes.length];
  return bounds.slice(1).map((end, at) => Uint8Array.from(bytes.subarray(bounds[at], end)));
}

function cutEvery(bytes: Buffer, length: number): readonly Uint8Array[] {
  return cut(bytes, ...Array.from({ length: Math.ceil(bytes.length / length) - 1 }, (_, at) => (at + 1) * length));
}

const HEAD = '{"status":"SUCCESS","data":[';
const tail = (truncated: boolean) => `],"truncated":${truncated}}`;

/** What a caller would have. */
async function read(pieces: readonly Uint8Array[], rowLimit: number) {
  const stream = writeRows(toAsync(pieces), rowLimit, tail);
  const given: Uint8Array[] = [];
  for await (const piece of stream.body) given.push(Uint8Array.from(piece));
  const body = Buffer.concat(given);
  const text = body
    .toString('utf8')
    .slice(HEAD.length)
    .replace(/\],"truncated":\w+\}$/, '');
  const { data, truncated } = JSON.parse(body.toString('utf8')) as { data: unknown[]; truncated: boolean };
  return { text, data, rows: stream.rows(), truncated };
}

async function* toAsync(pieces: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* pieces;
}

const whole = (count: number, truncated: boolean) => ({ data: ROWS.slice(0, count), rows: count, truncated });

describe('without a limit that matters', () => {
  test('every row passes as it is, and nothing stands between them but commas', async () => {
    const { text, ...rest } = await read(cut(LINES), 100);
    expect(rest).toEqual(whole(4, false));
    expect(text).toBe(ROWS.map((row) => JSON.stringify(row)).join(','));
  });

  test('no rows are an empty array, whether there are pieces or none', async () => {
    for (const pieces of [[], [new Uint8Array()], [new Uint8Array(), new Uint8Array()]]) {
      expect(await read(pieces, 1)).toEqual({ text: '', data: [], rows: 0, truncated: false });
    }
  });
});

describe.each([1, 2, 3, 4, 5])('with a limit of %i rows', (limit) => {
  const expected = whole(Math.min(limit, ROWS.length), limit < ROWS.length);

  test('three pieces may meet at any two bytes, an empty one among them', async () => {
    for (let first = 0; first <= LINES.length; first += 1) {
      for (let second = first; second <= LINES.length; second += 1) {
        const { text, ...rest } = await read(cut(LINES, first, second), limit);
        if (JSON.stringify(rest) !== JSON.stringify(expected))
          expect(rest, `cut at ${first}, ${second}: ${text}`).toEqual(expected);
      }
    }
  });
});

describe('at the limit', () => {
  test('empty pieces behind the last row that fits are no further row', async () => {
    const pieces = [...cut(toLines(ROWS.slice(0, 2))), new Uint8Array(), new Uint8Array()];
    expect(await read(pieces, 2)).toMatchObject(whole(2, false));
  });

  test('the rest of the lines is left unread, and its giver is told', async () => {
    let isLeft = false;
    let taken = 0;
    async function* give() {
      try {
        for (const piece of cutEvery(toLines(Array.from({ length: 1_000 }, (_, n) => ({ n }))), 100)) {
          taken += 1;
          yield piece;
        }
      } finally {
        isLeft = true;
      }
    }
    const stream = writeRows(give(), 10, tail);
    let last = '';
    for await (const piece of stream.body) last = Buffer.from(piece).toString('utf8');
    expect([stream.rows(), last, isLeft]).toEqual([10, tail(true), true]);
    expect(taken).toBeLessThan(5);
  });
});

test('a failure of the lines comes through, behind the rows before it', async () => {
  async function* give() {
    yield Uint8Array.from(toLines(ROWS.slice(0, 1)));
    throw new RangeError('the engine is gone');
  }
  const stream = writeRows(give(), 100, tail);
  const given: string[] = [];
  const reading = (async () => {
    for await (const piece of stream.body) given.push(Buffer.from(piece).toString('utf8'));
  })();
  await expect(reading).rejects.toThrow('the engine is gone');
  expect(JSON.parse(`${given.join('')}${tail(false)}`)).toMatchObject({ data: ROWS.slice(0, 1) });
  expect(stream.rows()).toBe(1);
});

const PIECE = Buffer.alloc(60_000_000, 'x');
const PIECES = 20;

/** One pool and its queries. @returns what counts the pieces that a query's engine has given */
function startRunner() {
  const given: number[] = [];
  const parsed: string[] = [];
  const run = createQueryRunner(
    {
      pool: {
        use: async <T>(_asker: PoolRequest, task: (engine: PooledEngine) => Promise<T>) =>
          await task({} as PooledEngine),
      },
      async stream(_engine: PooledEngine, text: string) {
        const query = Number(text);
        return (async function* () {
          if (query < 0) {
            yield* cut(LINES, toLines(ROWS.slice(0, 1)).length);
            throw new RangeError('the engine is gone');
          }
          for (given[query] = 0; (given[query] ?? 0) < PIECES; given[query] = (given[query] ?? 0) + 1) yield PIECE;
        })();
      },
    } as unknown as Backend,
    {
      admit: async (sql) => {
        parsed.push(sql);
        return sql;
      },
    },
    1,
  );
  const ask = async (query: number, { signal } = new AbortController()) => {
    const answer = await run({ sql: String(query), rowLimit: 1, tail, owner: 'a', signal });
    return (answer.body as AsyncGenerator<Uint8Array>)[Symbol.asyncIterator]();
  };
  return { given, parsed, ask };
}

describe('answers that nobody reads', () => {
  test('hold half a gigabyte together, then their engines wait; one that is read goes on, as do those left behind', async () => {
    const { given, ask } = startRunner();
    const gone = new AbortController();
    await ask(0, gone);
    await vi.waitFor(() => expect(given[0]).toBe(8));
    const other = await ask(1);
    await vi.waitFor(() => expect(given[1]).toBe(0));
    for (let pieces = 0; pieces < PIECES + 1; pieces += 1) expect((await other.next()).done).toBe(false);
    await vi.waitFor(() => expect(given).toEqual([8, PIECES]));
    // A caller who disconnects before he reads holds nothing any more, and his engine stops.
    gone.abort();
    await ask(2);
    await vi.waitFor(() => expect(given[2]).toBe(8));
    expect(given[0]).toBeLessThan(10);
  });
});

test('what an engine gave before it failed is not lost: an answer that needs no more is whole', async () => {
  const { ask } = startRunner();
  const body = await ask(-1);
  await new Promise((resolve) => setImmediate(resolve));
  let text = '';
  for (let piece = await body.next(); !piece.done; piece = await body.next())
    text += Buffer.from(piece.value).toString();
  expect(JSON.parse(text)).toEqual({ status: 'SUCCESS', data: ROWS.slice(0, 1), truncated: true });
});

test('a statement that was admitted is not parsed again, until 256 others came', async () => {
  const { parsed, ask } = startRunner();
  for (const query of [0, 1, 0, 1]) await ask(query);
  expect(parsed).toEqual(['0', '1']);
  for (let query = 2; query < 258; query += 1) await ask(query);
  await ask(257);
  expect(parsed).toHaveLength(258);
  await ask(0);
  expect(parsed).toHaveLength(259);
});
