/** The page of a drop and its download. With a real store it is in `test/daemon/start.slow.test.ts`. */
import { Readable } from 'node:stream';
import { afterEach, expect, it } from 'vitest';
import { NO_OVERRIDE } from '../../../src/calendar/session.ts';
import { Fault } from '../../../src/core/errors.ts';
import { HOSTILE, makeBadDay, makeCommands, makeDrop, makeHostileDay, NOW, usePage } from './views.ts';

const { call: get, ...page } = usePage();
let now = NOW;
let asked: string[] = [];
afterEach(() => {
  asked = [];
});

async function start(
  says: Parameters<typeof makeCommands>[0] = {},
  view = makeBadDay,
  calendar = NO_OVERRIDE,
): Promise<void> {
  await page.start({
    ...{ view, calendar },
    commands: makeCommands({
      drop(job, date) {
        asked.push(`drop ${job} ${date}`);
        return makeDrop(job, date);
      },
      query(sql, job) {
        asked.push(`${job}: ${sql}`);
        return [{ symbol: 'SPY', premium: 436, more: { a: 1 } }];
      },
      ...says,
    }),
    clock: { now: () => (now += 1_100), sleep: async () => {} },
  });
}

const PATH = '/drops/nightly-trades/2026-11-20';

it('says of a drop what its manifest says, in words, and how to read it', async () => {
  await start();
  const { status, body } = await get(PATH);
  const words = body.replace(/<[^>]*>/g, '').replace(/\s+/g, ' ');
  expect(status).toBe(200);
  expect(words).toContain('8,412,907 rows, 09:30 to 16:15 exchange time; revision 2, sealed 2 days ago');
  expect(words).toContain('the source has the same ids and values; compared again on Nov 21, 18:00 ET: equal.');
  expect(words).toContain('revision 2, sealed Nov 20, 18:41 ET, 8,412,907 rows: 3 added, 1 removed, 2 altered');
  expect(body).toContain('read_parquet(&#39;s3://quant-drops/options/trades/session=2026-11-20/trades.parquet&#39;)');
  for (const name of ['DuckDB', 'pandas', 'Polars', 'ClickHouse']) expect(body).toContain(`<summary>${name}</summary>`);
});

it('names a half day, as the calendar does', async () => {
  await start({}, makeBadDay, { ...NO_OVERRIDE, earlyClose: new Set(['2026-11-20']) });
  expect((await get(PATH)).body).toContain('Half day, closes 13:00.');
  const { body } = await get('/jobs/nightly-trades');
  expect(body).toMatch(/>20 ½<.*Fri, Nov 20, 2026: [^<]*, half day, closes 13:00</);
  expect(body).not.toContain('>19 ½<');
});

it('reads rows and sums only when they are asked for, and once for all who ask meanwhile', async () => {
  await start();
  await Promise.all([get(PATH), get(PATH), get(`/api${PATH}`)]);
  expect(asked).toEqual(['drop nightly-trades 2026-11-20']);
  const { body } = await get(`${PATH}?rows=1`);
  expect(body).toContain('<td>436</td><td>{&quot;a&quot;:1}</td>');
  expect(asked.slice(2)).toEqual([
    "nightly-trades: SELECT * FROM `trades` WHERE date = toDate('2026-11-20') LIMIT 20",
    expect.stringMatching(/^nightly-trades: SELECT symbol, trades, .* FROM `trades_summary` WHERE date = toDate/),
  ]);
});

it('sends the file as it is read, with its size, and ends the connection when the reading fails', async () => {
  await start();
  const file = await get(`${PATH}/file`);
  expect([file.status, file.body, file.headers['content-length']]).toEqual([200, 'PAR1', '4']);
  expect(file.headers['content-disposition']).toBe('attachment; filename="2026-11-20-trades.parquet"');
  const broken = Readable.from(
    (async function* () {
      yield 'PA';
      throw new RangeError('the process ended');
    })(),
  );
  await start({ stream: () => broken });
  await expect(get(`${PATH}/file`)).rejects.toThrow();
  await start({
    stream() {
      throw new Fault('BUSY', 'others');
    },
  });
  expect((await get(`${PATH}/file`)).status).toBe(503);
});

it('offers to accept a gap that a person may accept, and nothing of a date that is not sealed', async () => {
  const unsealed = { manifest: null, location: null, revisions: [], audit: null };
  await start({ drop: (job, date) => makeDrop(job, date, { ...unsealed, condition: 'expired' }) });
  const { body } = await get(PATH);
  expect(body).toContain('action="/actions/accept"');
  expect(body).not.toContain('Download');
  expect((await get(`${PATH}/file`)).status).toBe(404);
  await start({ drop: (job, date) => makeDrop(job, date, { ...unsealed, condition: 'pending' }) });
  expect((await get(PATH)).body).not.toContain('action="/actions/accept"');
});

it('says that a store cannot be read, tells nothing of why, and asks again the next time', async () => {
  let isDown = true;
  await start({
    async drop(job, date) {
      if (isDown) throw new Fault('STORE_UNREACHABLE', 's3://secret-place is away');
      return makeDrop(job, date);
    },
  });
  for (const path of [PATH, `/api${PATH}`]) {
    const { status, body } = await get(path);
    expect([status, body.includes('STORE_UNREACHABLE'), body.includes('secret-place')]).toEqual([502, true, false]);
  }
  isDown = false;
  expect((await get(PATH)).status).toBe(200);
});

it.each(['2026-11-2', '2026-11-20x', "2026-11-20'", '..%2f..%2fetc', 'today', '--file'])(
  'reads nothing for the date %s',
  async (date) => {
    await start();
    const ofDate = `/drops/nightly-trades/${date}`;
    for (const path of [ofDate, `${ofDate}/file`, '/drops/nobody/2026-11-20']) {
      expect([(await get(path)).status, (await get(`/api${path}`)).status]).toEqual([404, 404]);
    }
    expect(asked).toEqual([]);
  },
);

it('shows texts that mean harm as texts', async () => {
  const harm = makeDrop(HOSTILE, '2026-11-20');
  const manifest = harm.manifest && {
    ...harm.manifest,
    ...{ degraded_reason: HOSTILE, sort: [HOSTILE], compression: HOSTILE, proved: HOSTILE, doubts: [HOSTILE] },
    checks: [{ check: HOSTILE, column: HOSTILE, passed: false, on_failure: 'warn', found: 1, allowed: 2 }],
    files: [{ filename: `${HOSTILE}\r\nx: y`, size: 4, hash: HOSTILE }],
    columns: [{ name: HOSTILE, type: HOSTILE, nullable: true }],
    query: { sql: HOSTILE, entry_point: HOSTILE },
    windows: [{ window: HOSTILE, rows: 1 }],
  };
  const drop = { ...harm, dataset: `\`${HOSTILE}\\`, damage: HOSTILE, location: `s3://${HOSTILE}`, manifest };
  await start({ drop: () => drop, query: () => [{ [HOSTILE]: HOSTILE }] }, makeHostileDay);
  const path = `/drops/${encodeURIComponent(HOSTILE)}/2026-11-20`;
  const { status, body } = await get(`${path}?rows=1`);
  expect([status, body.includes('<img'), body.match(/<script/g)?.length]).toEqual([200, false, 1]);
  const file = await get(`${path}/file`);
  expect([file.status, file.headers['x']]).toEqual([200, undefined]);
});
