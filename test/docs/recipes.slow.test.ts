/**
 * docs/recipes.md, and the checks of docs/data.md: every query runs in `flowdrop query` and in DuckDB, and gives the same
 * rows in both and in docs/examples/recipes.py, which is Polars. Where the page says that a number is the report's, it is compared with the report that the
 * same run mailed. The rule of `counted` is the report's own, and Polars follows it on a day full of cancels.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Amount } from '../../src/report/amount.ts';
import type { FlowReport } from '../../src/report/model.ts';
import { buildCancelledQuery, buildCountedCondition } from '../../src/report/records.ts';
import { createDropFolder, writeDrop } from '../report/drop-file.ts';
import { createRandomDay } from '../report/random-day.ts';
import { queryDuckDb } from '../support/drop.ts';
import { flowdrop, listFiles, MAIN, makeFolder, REPO, startService } from '../support/flowdrop.ts';
import { listBlocks, listCodes, readSection } from '../support/pages.ts';
import { findPython } from '../support/python.ts';

/** Skipped where Python or its packages cannot be had, which `support/python.ts` says aloud; CI never skips it. */
const python = findPython();

const blocks = ['docs/recipes.md', 'docs/data.md'].flatMap(listBlocks);
const textsOf = (info: string) => blocks.filter((block) => block.info === info).map(({ text }) => text);
const sqlPrefix = readFileSync(join(REPO, 'docs/examples/counted.sql'), 'utf8').replace(/^--.*\n/, '');
const views = readFileSync(join(REPO, 'docs/examples/views.sql'), 'utf8');
/** Cells of the file by their titles, which are those of the recipes. */
const cells = new Map(
  readFileSync(join(REPO, 'docs/examples/recipes.py'), 'utf8')
    .split(/^# %% /m)
    .map((cell) => [cell.split('\n', 1)[0] ?? '', cell.replace(/^.*\n/, '')]),
);
const pythonSetup = cells.get('Frames') ?? '';
const pythonPrefix = cells.get('The trades that count') ?? '';

const COUNT_BY_DATE =
  'SELECT date, count(*) AS trades, sum(premium) AS premium FROM counted GROUP BY date ORDER BY date';

type Row = Readonly<Record<string, unknown>>;

/** One query of a heading, and the same in Polars; a heading may have several. */
interface Recipe {
  readonly title: string;
  readonly sql: string;
  /** DuckDB reads files that `flowdrop query` does not. */
  readonly isDuckDbOnly: boolean;
  readonly python: string | undefined;
}

const recipes: readonly Recipe[] = [...new Set(blocks.map(({ heading }) => heading))].flatMap((heading) => {
  const own = blocks.filter((block) => block.heading === heading);
  return own
    .filter(({ info }) => info === 'sql recipe run' || info === 'sql duckdb recipe run')
    .map(({ info, text }, at) => {
      const title = at === 0 ? heading : `${heading} (${at + 1})`;
      const sql = /\b(counted|spots)\b/.test(text) ? `${sqlPrefix}${text}` : text;
      return { title, sql, isDuckDbOnly: info === 'sql duckdb recipe run', python: cells.get(title) };
    });
});

let cwd: string;
let remove: () => Promise<void>;
let report: FlowReport;
let inDuckDb: ReadonlyMap<string, readonly Row[]>;
let inPolars: ReadonlyMap<string, readonly Row[]>;

beforeAll(async () => {
  ({ path: cwd, remove } = await makeFolder());
  // A Thursday: no series settles at its opening.
  const asOf = ['--as-of', '2026-11-19T23:00:00Z'];
  const service = await startService(['--generate', '3', '--generate-rows', '2500', ...asOf]);
  try {
    const env = { ...service.env, FLOWDROP_OUTBOX_DIR: join(cwd, 'mail') };
    const run = async (...args: readonly string[]) => {
      const ended = await flowdrop(args, { cwd, env });
      expect(ended.code, ended.stderr).toBe(0);
    };
    await run('--jobs', join(REPO, 'jobs'), 'run', 'nightly-trades', '--no-report');
    const date = (await listFiles(join(cwd, 'out/drops/trades'))).at(-1)?.slice(8, 18) ?? '';
    // Two symbols of the watchlist get a chain; the third is computed from the contracts that traded.
    await writeFile(
      join(cwd, 'chain.yaml'),
      'name: chain\nsource: {api: chain, symbols: [SPX, QQQ]}\ndrop: {to: out/drops, dataset: option-chain}\n',
    );
    await flowdrop(['backfill', 'chain.yaml', '--from', date, '--to', date], { cwd, env });
    await run('--jobs', join(REPO, 'jobs'), 'report', 'nightly-trades', '--date', date);
    const name = (await listFiles(join(cwd, 'out/drops/_flowdrop/reports'))).find((file) =>
      file.endsWith('report.json'),
    );
    report = JSON.parse(await readFile(join(cwd, 'out/drops/_flowdrop/reports', name ?? ''), 'utf8'))[0].report;
    const sessions = (await listFiles(join(cwd, 'out/drops/trades'))).map((file) => file.slice(8, 18));
    const prices = sessions.flatMap((session, at) => [`${session},SPX,${7000 + at}`, `${session},SPY,${700 + at}`]);
    await writeFile(join(cwd, 'prices.csv'), `date,symbol,close\n${prices.join('\n')}\n`);
    inDuckDb = await runDuckDb();
    inPolars = python.isMissing ? new Map() : runPolars();
  } finally {
    await service.stop();
  }
}, 400_000);
afterAll(async () => await remove());

describe('a recipe', () => {
  it('exists twelve times, each of them also for Polars', () => {
    expect(recipes.filter(({ title }) => /^\d+\. [^(]+$/.test(title))).toHaveLength(12);
    const bare = recipes.filter(({ title, python: text }) => /^\d/.test(title) && text === undefined);
    expect(bare.map(({ title }) => title)).toEqual([]);
  });

  it.each(recipes.filter(({ isDuckDbOnly }) => !isDuckDbOnly).map((recipe) => [recipe.title, recipe] as const))(
    '%s gives the same rows in `flowdrop query` and in DuckDB',
    async (title, { sql }) => {
      const store = ['--from-store', 'out/drops', '--dataset', 'trades', '--format', 'json'];
      const ended = await flowdrop(['query', sql, ...store], { cwd });
      expect(ended.code, ended.stderr).toBe(0);
      const rows: readonly Row[] = JSON.parse(ended.stdout);
      expect(rows.length).toBeGreaterThan(0);
      expectRows(rows, inDuckDb.get(title));
    },
  );

  it.skipIf(python.isMissing).each(recipes.filter(({ python: text }) => text !== undefined).map(({ title }) => title))(
    '%s gives the same rows in Polars',
    (title) => expectRows(inPolars.get(title), inDuckDb.get(title)),
  );
});

describe('the lines that use `counted.sql`', () => {
  it('run in a clone, and answer', () => {
    const [lines = ''] = textsOf('sh recipe run');
    const command = lines
      .replace('docs/examples', `"${join(REPO, 'docs', 'examples')}"`)
      .replace('npx flowdrop', `"${process.execPath}" "${MAIN}" --json`)
      .replace('query -', 'query - --from-store out/drops --dataset trades');
    const run = spawnSync('sh', ['-c', command], { cwd, encoding: 'utf8' });
    expect(run.status, run.stderr).toBe(0);
    expect(JSON.parse(run.stdout)).toHaveLength(5);
  });
});

describe.skipIf(python.isMissing)('the join in pandas', () => {
  it('gives the same rows as in DuckDB', () => {
    const text = cells.get('10. Join with daily prices, in pandas') ?? '';
    const script = `${text}
print(answer.assign(date=answer["date"].dt.strftime("%Y-%m-%d")).to_json(orient="records", double_precision=15))`;
    const rows: readonly Row[] = JSON.parse(runPython(script));
    expect(rows.length).toBeGreaterThan(3);
    expectRows(rows, inDuckDb.get('10. Join with daily prices'));
  });
});

describe('the number of the mail', () => {
  const read = (title: string) => {
    const found = [...inDuckDb].find(([name]) => name.startsWith(`${title}.`) || name === title);
    return found?.[1] ?? [];
  };

  it('premium, records and contracts are those of `trades_counted`', async () => {
    const sql = `SELECT sum(premium) AS total, count() AS trades, sum(size) AS contracts FROM trades_counted WHERE date = '${report.drop.date}'`;
    const ended = await flowdrop(['query', sql, '--from-store', 'out/drops', '--format', 'json'], { cwd });
    const { total, trades, contracts } = report.headline;
    expect(JSON.parse(ended.stdout)).toEqual([{ total: expect.closeTo(Number(total), 2), trades, contracts }]);
  });

  it('0DTE share is that of recipe 1', () => {
    expect(Number(read('1')[0]?.['zero_dte_share'])).toBeCloseTo(
      Number(report.headline.zeroDte) / Number(report.headline.total),
      12,
    );
  });

  it.each([
    ['2. GEX by strike', 'SPY', false],
    ['2. GEX by strike (2)', 'QQQ', true],
  ] as const)('GEX by strike is that of recipe %s', (title, symbol, isWholeChain) => {
    const exposure = report.exposure.focus.find((one) => one.symbol === symbol);
    expect(exposure?.isWholeChain).toBe(isWholeChain);
    const rows = inDuckDb.get(title) ?? [];
    const sum = (column: string) => rows.reduce((total, row) => total + Number(row[column]), 0);
    expectNear(sum('call_gex'), exposure?.callGex);
    expectNear(sum('put_gex'), exposure?.putGex);
    const byStrike = new Map(rows.map((row) => [Number(row['strike']), row]));
    expect(exposure?.strikes.length).toBeGreaterThan(10);
    for (const { strike, callGex, putGex } of exposure?.strikes ?? []) {
      expectNear(Number(byStrike.get(strike)?.['call_gex']), callGex);
      expectNear(Number(byStrike.get(strike)?.['put_gex']), putGex);
    }
  });

  it('25-delta skew is that of recipe 3', () => {
    const listed = report.volatility.filter(({ symbol }) => symbol === 'QQQ');
    const rows = new Map(read('3').map((row) => [String(row['expiration_date']), row['skew']]));
    expect(listed.filter(({ skew }) => skew !== null).length).toBeGreaterThan(3);
    for (const { expirationDate, skew } of listed) {
      const found = rows.get(expirationDate) ?? null;
      if (skew === null) expect(found, expirationDate).toBeNull();
      else expectNear(Number(found), skew);
    }
  });

  it('net premium by half hour is that of recipe 4', () => {
    const slots = report.halfHours.filter(({ trades }) => trades > 0);
    const rows = read('4');
    expect(rows).toHaveLength(slots.length);
    for (const [at, { netCalls, netPuts }] of slots.entries()) {
      expectNear(Number(rows[at]?.['net_calls']), netCalls);
      expectNear(Number(rows[at]?.['net_puts']), netPuts);
    }
  });

  it('put/call by symbol is that of recipe 5', () => {
    const rows = read('5');
    expect(rows.map((row) => row['symbol'])).toEqual(report.topSymbols.map(({ symbol }) => symbol));
    for (const [at, { total, putCallByPremium, putCallByVolume }] of report.topSymbols.entries()) {
      expectNear(Number(rows[at]?.['total_premium']), total);
      expectNear(Number(rows[at]?.['by_premium']), putCallByPremium);
      expectNear(Number(rows[at]?.['by_contracts']), putCallByVolume);
    }
  });

  it('top contracts are those of recipe 6', () => {
    const rows = read('6');
    expect(rows).toHaveLength(report.topContracts.length);
    for (const [at, { trades, volume, openInterest, premium }] of report.topContracts.entries()) {
      const row = rows[at] ?? {};
      expect([row['trades'], row['volume'], row['open_interest'], row['total_premium']].map(Number)).toEqual([
        ...[trades, volume, openInterest, premium],
      ]);
    }
  });

  it('large trades are those of recipe 7', () => {
    expect(read('7').map((row) => String(row['id']))).toEqual(report.biggestTrades.map(({ id }) => id));
  });

  it('premium by expiration is that of recipe 8', () => {
    const rows = new Map(read('8').map((row) => [String(row['bucket']), row]));
    const parts = report.expiries.filter(({ trades }) => trades > 0);
    expect([...rows.keys()].sort()).toEqual(parts.map(({ bucket }) => String(bucket)).sort());
    for (const { bucket, trades, total } of parts) {
      expect(Number(rows.get(bucket)?.['trades'])).toBe(trades);
      expectNear(Number(rows.get(bucket)?.['total_premium']), total);
    }
  });
});

describe('the rule of the trades that count', () => {
  it('is that of the report, within each date', () => {
    const plain = (text: string) => text.replaceAll(/\s+/g, ' ').trim();
    const list = buildCancelledQuery('day', ['date', 'id', 'time']);
    const ofReport = buildCountedCondition({ name: '(date, id, time)', list }).replaceAll(
      'PARTITION BY symbol',
      'PARTITION BY date, symbol',
    );
    expect(plain(sqlPrefix)).toContain(plain(`FROM day WHERE ${ofReport})`));
  });

  it('leaves the same records over two days full of cancels as over each, in DuckDB and in Polars', async () => {
    const engine = await openEmbeddedEngine();
    const folder = await createDropFolder();
    try {
      // Nearly the same prints on both days: without the date in its keys, a cancel message would take one of the other day.
      const [first, second] = await Promise.all(
        ['2026-11-18', '2026-11-19'].map(async (date) => {
          const drawn = createRandomDay(5, { date, prints: 2000 });
          // Prints that share an id count or not together here.
          const trades = drawn.map((trade, at) => ({ ...trade, id: `${date}-${at}` }));
          return { date, rows: trades.length, path: (await writeDrop(engine, folder.path, date, trades)).path };
        }),
      );
      const paths = [first?.path ?? '', second?.path ?? ''];
      const both = sqlPrefix
        .replaceAll('FROM trades', `FROM read_parquet(['${paths.join("', '")}'])`)
        .replace(/WHERE date = .*\n/, "WHERE date >= '2026-11-18'),\n");
      const expected: Record<string, unknown>[] = [];
      for (const { path, rows } of [first, second].filter((day) => day !== undefined)) {
        const sql = `${sqlPrefix.replaceAll('FROM trades', `FROM '${path}'`)} ${COUNT_BY_DATE}`;
        const [counted] = await queryDuckDb(sql);
        expect(Number(counted?.['trades'])).toBeLessThan(rows);
        expected.push(counted ?? {});
      }
      expectRows(await queryDuckDb(`${both} ${COUNT_BY_DATE}`), expected);
      if (python.isMissing) return;
      const script = `import polars as pl\ntrades = pl.scan_parquet(${JSON.stringify(paths)})
${pythonPrefix.replace('pl.col("date") == last', 'pl.col("date") >= pl.date(2026, 11, 18)')}
by_date = counted.group_by("date").agg(trades=pl.len(), premium=pl.col("premium").sum()).sort("date")
print(by_date.collect().write_json())`;
      expectRows(JSON.parse(runPython(script)), expected);
    } finally {
      await engine.close();
      await folder.remove();
    }
  });
});

describe('the data dictionary', () => {
  it('lists the columns of a real summary, in order, with their types', async () => {
    const summary = `${cwd}/out/drops/_flowdrop/trades/*/summary.parquet`;
    const rows = await queryDuckDb(`DESCRIBE SELECT * FROM read_parquet('${summary}', hive_partitioning = false)`);
    const types: Readonly<Record<string, string>> = { VARCHAR: 'string', BIGINT: 'int64', DOUBLE: 'double' };
    expect(rows.map((row) => [row['column_name'], types[String(row['column_type'])]])).toEqual(
      // Names, then their type.
      [...readSection('docs/data.md', 'Summary').matchAll(/^- ([^:]*):/gm)].flatMap(([, head = '']) =>
        [...head.matchAll(/((?:`\w+`(?:, )?)+) `(\w+)\??`/g)].flatMap(([, names = '', type]) =>
          listCodes(names).map((name) => [name, type]),
        ),
      ),
    );
  });

  it('finds by its check what the included service sends: theta a calendar day, vega and rho a point', () => {
    const rows = inDuckDb.get('Greeks and volatility') ?? [];
    const mean = (column: string) => rows.reduce((sum, row) => sum + Number(row[column]), 0) / rows.length;
    expect(rows).toHaveLength(2);
    expect(mean('iv_ratio')).toBeGreaterThan(0.8);
    expect(mean('iv_ratio')).toBeLessThan(1.2);
    expect(mean('gamma_ratio')).toBeGreaterThan(0.9);
    expect(mean('gamma_ratio')).toBeLessThan(1.1);
    expect(mean('theta_ratio') * 365).toBeGreaterThan(0.8);
    expect(mean('theta_ratio') * 365).toBeLessThan(1.2);
    expect(mean('vega_ratio')).toBeCloseTo(0.01, 3);
    expect(mean('rho_ratio')).toBeCloseTo(0.01, 2);
  });
});

/** All recipes in DuckDB, over the views of the page. */
async function runDuckDb(): Promise<ReadonlyMap<string, readonly Row[]>> {
  const here = (sql: string) =>
    sql.replaceAll("'out/", `'${cwd}/out/`).replaceAll("'prices.csv'", `'${cwd}/prices.csv'`);
  const found = new Map<string, readonly Row[]>();
  // Each query has a database of its own, so the views become the first tables of it.
  const tables = [...here(views).matchAll(/CREATE VIEW (\w+) AS\n([\s\S]*?);/g)].map(
    ([, name, select]) => `${name} AS (${select})`,
  );
  expect(tables).toHaveLength(3);
  for (const { title, sql } of recipes) {
    const own = here(sql);
    const joined = own.startsWith('WITH ')
      ? own.replace(/^WITH /, `WITH ${tables.join(', ')}, `)
      : `WITH ${tables.join(', ')} ${own}`;
    found.set(title, await queryDuckDb(joined));
  }
  return found;
}

/** All recipes in one Python. */
function runPolars(): ReadonlyMap<string, readonly Row[]> {
  const parts = recipes.flatMap(({ title, python: text }) =>
    text === undefined ? [] : [`${text}\nanswers[${JSON.stringify(title)}] = json.loads(answer.write_json())\n`],
  );
  const script = `import json\nanswers = {}\n${pythonSetup}\n${pythonPrefix}\n${parts.join('\n')}\nprint(json.dumps(answers))`;
  return new Map(Object.entries(JSON.parse(runPython(script)) as Readonly<Record<string, readonly Row[]>>));
}

function runPython(script: string): string {
  const run = spawnSync(python.path, ['-'], { cwd, input: script, encoding: 'utf8', maxBuffer: 100_000_000 });
  expect(run.status, run.stderr).toBe(0);
  return run.stdout;
}

/** The same rows in the same order; large integers are texts in some readers, and sums differ in their last digits. */
function expectRows(found: readonly Row[] | undefined, expected: readonly Row[] | undefined): void {
  expect(found?.length).toBe(expected?.length);
  for (const [at, row] of (found ?? []).entries()) {
    const other = expected?.[at] ?? {};
    expect(Object.keys(row)).toEqual(Object.keys(other));
    for (const [name, value] of Object.entries(row)) {
      const wanted = other[name];
      if (typeof value === 'number' || typeof wanted === 'number') expectNear(Number(value), Number(wanted));
      else expect(value, `${name} of row ${at}`).toEqual(wanted);
    }
  }
}

function expectNear(found: number, expected: Amount | undefined): void {
  expect(Math.abs(found - Number(expected)), `${found} is near ${expected}`).toBeLessThan(
    1e-6 * Math.max(1, Math.abs(Number(expected))),
  );
}
