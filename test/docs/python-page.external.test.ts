/**
 * docs/python.md: its snippets run one after the other, as a reader types them, over drops of a real run with evenings,
 * cancels and late reports. What they count is what the same run mailed, and what the report's own rule counts on a day full
 * of cancels. The same lines stand in the README and the notebook, and run over a dataset that got a new column. Its snippet
 * for S3: `remote.external.test.ts`. Also the recipe for DuckLake.
 */
import { spawnSync } from 'node:child_process';
import { cp, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { FlowReport } from '../../src/report/model.ts';
import { buildCountedTable } from '../../src/report/records.ts';
import { createTrade, writeDrop } from '../report/drop-file.ts';
import { createRandomDay } from '../report/random-day.ts';
import { queryDuckDb } from '../support/drop.ts';
import { listFiles, makeFolder, REPO } from '../support/flowdrop.ts';
import { findSnippets, listBlocks, splitStatements } from '../support/pages.ts';
import { findPython } from '../support/python.ts';
import { runShipped } from './shipped-job.ts';

/** Skipped where Python or its packages cannot be had, which `support/python.ts` says aloud; CI never skips it. */
const python = findPython();
const pythonDuckDb = findPython('requirements-duckdb.txt');

const snippets = findSnippets('python page run').map(([, text]) => text);
/** Of 100,000 records, with a night and a curb. */
const GENERATED = ['--generate', '2', '--as-of', '2026-11-25T23:30:00Z'];
const [OLDEST, NEWEST] = ['2026-11-24', '2026-11-25'];

/** What the variables of the page hold in the end. */
const ANSWER = `
days = lambda texts: sorted({str(one)[:10] for one in texts})
by_session = lambda rows: {str(day)[:10]: int(count) for day, count in rows}
counted = new_in_arrow.to_table(columns=schema.names[-2:]).to_pandas()
name = schema.names[-2]
print(json.dumps({
  "dates": [days(trades["date"]), days(table["date"].to_pylist()), days(frame["date"].to_list())],
  "columns": [list(trades), table.column_names, frame.columns],
  "counted": [
    [len(newest), newest["premium"].sum(), int(newest["size"].sum())],
    [arrow.num_rows, pc.sum(arrow["premium"]).as_py(), pc.sum(arrow["size"]).as_py()],
    [polars.height, polars["premium"].sum(), polars["size"].sum()],
  ],
  "clock": str(newest["time"].min()),
  "instants": [str(in_pandas.min()), str(pc.min(in_arrow).as_py().astimezone(__import__("datetime").timezone.utc)), str(in_polars["time"].min())],
  "families": [by_family.to_dict(), dict(by_family_too.iter_rows())],
  "several": [ds.dataset([folder, folder]).count_rows(), pl.scan_parquet(["out/drops/trades"] * 2, missing_columns="insert", extra_columns="ignore").select(pl.len()).collect().item()],
  "new": [
    by_session(new_in_pandas.groupby("session")[name].count().items()),
    by_session(counted.groupby("session")[name].count().items()),
    by_session(new_in_polars.group_by("date").agg(pl.col(name).count()).collect().iter_rows()),
  ],
  "prices": [prices["symbol"].tolist(), prices["close"].isna().tolist()],
}))
`;

interface Answer {
  readonly dates: readonly (readonly string[])[];
  readonly columns: readonly (readonly string[])[];
  readonly counted: readonly (readonly number[])[];
  readonly clock: string;
  readonly instants: readonly string[];
  readonly families: readonly Readonly<Record<string, number>>[];
  readonly several: readonly number[];
  readonly new: readonly Readonly<Record<string, number>>[];
  readonly prices: readonly [readonly string[], readonly boolean[]];
}

let cwd: string;
let remove: () => Promise<void>;
let rows: Readonly<Record<string, number>>;
beforeAll(async () => {
  ({ path: cwd, remove } = await makeFolder());
  const env = { FLOWDROP_OUTBOX_DIR: join(cwd, 'mail') };
  await runShipped(cwd, { generated: GENERATED, command: ['run', 'nightly-trades'], env });
  await writeFile(join(cwd, 'prices.csv'), `date,symbol,close\n${NEWEST},NA,12.5\n${NEWEST},NULL,\n`);
  const counts = await queryDuckDb(
    `SELECT date::VARCHAR AS date, count(*)::INTEGER AS n FROM '${cwd}/out/drops/trades/*/*.parquet' GROUP BY 1 ORDER BY 1`,
  );
  rows = Object.fromEntries(counts.map(({ date, n }) => [String(date), Number(n)]));
}, 400_000);
afterAll(async () => await remove());

function runPython(path: string, input: string, folder: string): string {
  const run = spawnSync(path, ['-'], { cwd: folder, input, encoding: 'utf8' });
  expect(run.status, run.stderr).toBe(0);
  return run.stdout.trim();
}

/** Writes a file with a new column and at most so many rows beside another. */
async function addColumn(path: string, limit = 1_000_000): Promise<void> {
  const from = `read_parquet('${path}', hive_partitioning = false)`;
  await queryDuckDb(`COPY (SELECT *, symbol AS venue FROM ${from} LIMIT ${limit}) TO '${path}.new' (FORMAT parquet)`);
}

function readPage(folder: string): Answer {
  const said = runPython(python.path, `${snippets.join('\n')}\n${ANSWER}`, folder);
  return JSON.parse(said.split('\n').at(-1) ?? '');
}

describe.skipIf(python.isMissing)('the page of Python', () => {
  let answer: Answer;
  let report: FlowReport;
  beforeAll(async () => {
    answer = readPage(cwd);
    const reports = join(cwd, 'out/drops/_flowdrop/reports');
    const name = (await listFiles(reports)).find((file) => file.endsWith('report.json')) ?? '';
    report = JSON.parse(await readFile(join(reports, name), 'utf8'))[0].report;
  }, 200_000);

  it('reads the named columns of whole dates', () => {
    expect(answer.columns).toEqual(Array.from({ length: 3 }, () => ['date', 'time', 'symbol', 'premium']));
    expect(answer.dates).toEqual(Array.from({ length: 3 }, () => [OLDEST, NEWEST]));
    expect(answer.several).toEqual([0, 0].map(() => 2 * ((rows[OLDEST] ?? 0) + (rows[NEWEST] ?? 0))));
  });

  it('counts what the mail counts, in each library', () => {
    const { trades, total, contracts } = report.headline;
    expect(report.drop.date).toBe(NEWEST);
    // Each part of the rule leaves something out here.
    const { cancelMessages, cancelledPrints, lateReports, otherHours } = report.exclusions;
    for (const part of [cancelMessages, cancelledPrints, lateReports, otherHours])
      expect(part.trades).toBeGreaterThan(10);
    for (const counted of answer.counted)
      expect(counted).toEqual([trades, expect.closeTo(Number(total), 2), contracts]);
  });

  it('has the symbols of a family as one, as the mail has them', () => {
    expect(report.topSymbols.map(({ symbol }) => symbol)).toContain('SPX');
    for (const sums of answer.families) {
      for (const { symbol, total } of report.topSymbols) expect(sums[symbol], symbol).toBeCloseTo(Number(total), 2);
    }
  });

  it('turns the wall clock into instants, five hours later in winter', () => {
    const instant = new Date(Date.parse(`${answer.clock.replace(' ', 'T')}Z`) + 5 * 3_600_000).toISOString();
    const seconds = instant.slice(0, 19).replace('T', ' ');
    expect(answer.instants.map((one) => one.slice(0, 19))).toEqual([seconds, seconds, seconds]);
    for (const one of answer.instants) expect(one).toMatch(/\+00:00$/);
  });

  it('keeps the tickers NA and NULL of a CSV', () => {
    expect(answer.prices).toEqual([
      ['NA', 'NULL'],
      [false, true],
    ]);
  });

  it('leaves out the same records as the report on a day full of cancels, with cells that are null', async () => {
    const engine = await openEmbeddedEngine();
    try {
      // A print without a price, size or strike is not what a message without one cancels.
      const lacking = (['price', 'size', 'strike'] as const).flatMap((name) =>
        ['AUTO', 'CANC'].map((type, at) =>
          createTrade({
            ...{ date: NEWEST, symbol: name, time: `${NEWEST} 10:00:0${at}`, id: `${name}-${at}` },
            ...{ option_activity_type: type, [name]: null },
          }),
        ),
      );
      const day = [...createRandomDay(11, { date: NEWEST, prints: 3000, gaps: 0.03 }), ...lacking];
      const { path } = await writeDrop(engine, cwd, 'random', day, undefined, true);
      const table = `file('${path}', Parquet)`;
      const [expected] = await engine.rows<{ readonly n: number; readonly lots: number }>(
        `SELECT toUInt32(count()) AS n, toUInt32(sum(size)) AS lots FROM ${buildCountedTable(table)}`,
      );
      expect(expected?.n).toBeLessThan(day.length - 300);
      // The engine marks a timestamp as UTC, which the footer of a drop does not.
      await queryDuckDb(
        `COPY (SELECT * REPLACE (time::TIMESTAMP AS time) FROM '${path}') TO '${path}.wall' (FORMAT parquet)`,
      );
      const said = runPython(
        python.path,
        `${snippets.join('\n')}
random = pd.read_parquet("${path}.wall", columns=COLUMNS)
shuffled = random.sample(frac=1, random_state=1)
other = pl.scan_parquet("${path}.wall").filter(IS_COUNTED).collect()
for sizes in [random[is_counted(random)]["size"], shuffled[is_counted(shuffled)]["size"], other["size"]]:
    print(json.dumps({"n": len(sizes), "lots": int(sizes.sum())}))`,
        cwd,
      );
      const answers = said.split('\n').slice(-3);
      expect(answers.map((line) => JSON.parse(line))).toEqual([expected, expected, expected]);
    } finally {
      await engine.close();
    }
  }, 200_000);

  it('reads a dataset whose newest date has a new column, and leaves out a date that is not whole', async () => {
    const grown = join(cwd, 'grown');
    await cp(join(cwd, 'out'), join(grown, 'out'), { recursive: true });
    await cp(join(cwd, 'prices.csv'), join(grown, 'prices.csv'));
    const path = join(grown, 'out/drops/trades', `session=${NEWEST}`, 'trades.parquet');
    await addColumn(path);
    await rename(`${path}.new`, path);
    const conditions = join(grown, 'out/drops/_flowdrop/trades/condition.json');
    const text = await readFile(conditions, 'utf8');
    await writeFile(conditions, text.replace('"condition":"available"', '"condition":"degraded"'));
    const { new: found, dates, counted } = readPage(grown);
    expect(found).toEqual(Array.from({ length: 3 }, () => ({ [OLDEST]: 0, [NEWEST]: rows[NEWEST] })));
    expect(dates).toEqual([[NEWEST], [NEWEST], [NEWEST]]);
    expect(counted).toEqual(answer.counted);
    // The README's lines too.
    const lines = listBlocks('README.md').filter(({ info }) => info === 'python run');
    expect(lines).toHaveLength(2);
    for (const { text: line } of lines) expect(runPython(python.path, line, grown)).toContain('2026');
  }, 200_000);

  it('has the lines of the README and of the notebook', async () => {
    const page = snippets.join('\n');
    for (const { text } of listBlocks('README.md').filter(({ info }) => info === 'python run'))
      for (const line of text.split('\n').filter((one) => !one.startsWith('print'))) expect(page).toContain(line);
    const notebook = JSON.parse(await readFile(join(REPO, 'docs/flow.ipynb'), 'utf8'));
    const [first = ''] = notebook.cells.flatMap((cell: { cell_type: string; source: readonly string[] }) =>
      cell.cell_type === 'code' ? [cell.source.join('')] : [],
    );
    // The lists of codes, and the expression.
    const shared = snippets
      .filter((text) => /^(CANCELS|minute) = /.test(text))
      .map((text) => text.split('\n\n')[0] ?? '');
    expect(shared).toHaveLength(2);
    for (const text of shared) expect(first).toContain(text.trimEnd());
  });
});

describe.skipIf(pythonDuckDb.isMissing)('the recipe for DuckLake', () => {
  it('has the rows of the drops, again after a date was restated', async () => {
    const folder = join(cwd, 'lake-of-a-reader');
    await mkdir(folder);
    await cp(join(cwd, 'out/drops/trades'), join(folder, 'out/drops/trades'), { recursive: true });
    const path = join(folder, 'out/drops/trades', `session=${NEWEST}`, 'trades.parquet');
    await addColumn(path, 5000);
    const [recipe = ''] = findSnippets('sql ducklake recipe run').map(([, text]) => text);
    // DuckDB's own server cannot be reached everywhere: the extension is from PyPI, and `INSTALL` has nothing to do.
    const script = `
import json, os, duckdb
from duckdb_extensions import import_extension
duckdb.sql("SET extension_directory = 'extensions'")
import_extension("ducklake")
def load():
    for statement in ${JSON.stringify(splitStatements(recipe))}:
        duckdb.execute(statement)
    print(json.dumps(dict(duckdb.execute("SELECT date::VARCHAR, count(*) FROM lake.trades GROUP BY ALL").fetchall())))
load()
os.replace("${path}.new", "${path}")
duckdb.execute("DETACH lake")
load()`;
    const [first, second] = runPython(pythonDuckDb.path, script, folder).split('\n').slice(-2);
    expect(JSON.parse(first ?? '')).toEqual(rows);
    expect(JSON.parse(second ?? '')).toEqual({ ...rows, [NEWEST]: 5000 });
  }, 200_000);
});
