/**
 * `flowdrop mcp` as an assistant uses it, by the client of the protocol's own SDK: once as a process on stdin and stdout, else
 * in this process. What the guard refuses and the archive answers is tested in `test/guard` and `test/archive`.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport, type StdioServerParameters } from '@modelcontextprotocol/sdk/client/stdio.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Call } from '../../src/cli/context.ts';
import { createToolServer } from '../../src/cli/mcp/mcp.ts';
import { describeFailure } from '../../src/cli/terminal/text.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { createOpeners } from '../../src/openers.ts';
import type { Condition } from '../../src/plan/conditions.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { type BuiltDay, buildDay, publishBuilt, publishDay } from '../archive/publish-day.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, MAIN, REPO, readManifest, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { findSnippets, readSection } from '../support/pages.ts';

/** Ten sessions, with a lost one, one without rows at the source and one that is not sealed yet between and after them. */
const SESSIONS = ['02', '03', '04', '06', '09', '11', '12', '13', '16', '17'].map((day) => `2026-11-${day}`);
const DEGRADED = '2026-11-12';
const GAPS: Readonly<Record<string, Condition>> = {
  '2026-11-05': 'expired',
  '2026-11-10': 'missing',
  '2026-11-18': 'pending',
};
const ROWS = 300;
/** Two files of a date that are published in turn. */
const RESTATED = '2026-11-19';
const RESTATEMENTS = 12;

interface Gap {
  readonly what: string;
  readonly newest: readonly string[];
}

interface ReportedNumber {
  readonly name: string;
  readonly value: number;
  readonly previous?: number;
  readonly definition: string;
}

/** What the tools answer; each has some of it, which its tests look for. */
interface Document {
  readonly columns: object;
  readonly rows: readonly (readonly unknown[])[];
  readonly left_out: string;
  readonly tables: Readonly<Record<string, string>>;
  readonly meanings: string;
  readonly formulas: readonly string[];
  readonly formula: string;
  readonly date: string;
  readonly parts: readonly [
    { readonly numbers: readonly ReportedNumber[]; readonly levels: readonly ReportedNumber[] },
  ];
  readonly basis: readonly [{ readonly dates: { readonly last: string }; readonly gaps: readonly Gap[] }];
}

interface Answer {
  readonly isError: boolean;
  readonly text: string;
  /** Empty for an error. */
  readonly json: Document;
}

const { cleanups, folder } = useCleanups();
let cwd: string;
let mailed: string;
const restated: BuiltDay[] = [];

async function openFolder(): Promise<string> {
  const path = await folder();
  await mkdir(join(path, 'jobs'));
  await writeJob(join(path, 'jobs'), { to: 'drops' });
  return path;
}

beforeAll(async () => {
  [cwd, mailed] = [await openFolder(), await openFolder()];
  const engine = await openEmbeddedEngine();
  const store = await openDirectoryStore(join(cwd, 'drops'));
  for (const [at, date] of SESSIONS.entries()) {
    const condition = date === DEGRADED ? 'degraded' : 'available';
    await publishDay(engine, store, { date, rows: ROWS, condition, change: (k) => ({ premium: (k + 1) * (at + 1) }) });
  }
  const ledger = new Ledger(store, 'trades');
  const nothing = { last_modified_date: null, revision: null, rows: null, size: null };
  const entries = Object.entries(GAPS).map(([date, condition]) => ({ date, condition, ...nothing }));
  await ledger.writeConditions(entries, await ledger.conditions());
  await store.close();
  const files = await folder();
  for (const premium of [1, 2])
    restated.push(await buildDay(engine, { date: RESTATED, rows: 30_000, change: () => ({ premium }) }, files));
  await engine.close();
  const service = await startService(['--generate', '3', '--generate-rows', '600']);
  await flowdrop(['run', 'nightly'], { cwd: mailed, env: service.env, code: 0 });
  await service.stop();
}, 300_000);

/** @returns what calls a tool */
async function connect(transport: Transport) {
  const client = new Client({ name: 'assistant', version: '1.0.0' });
  await client.connect(transport);
  const call = async (name: string, input: Readonly<Record<string, unknown>> = {}): Promise<Answer> => {
    const { content, isError = false } = await client.callTool({ name, arguments: input });
    const [{ text = '' } = {}] = content as readonly { readonly text?: string }[];
    return { isError: isError === true, text, json: (isError ? {} : JSON.parse(text)) as Document };
  };
  return { client, call };
}

/** The tools of a folder, in this process. */
async function openTools(path: string, options: Call<'mcp'>['options'] = {}) {
  const openers = createOpeners({
    ...{ env: {}, cwd: path, packageDir: REPO, writeErr: () => {}, interactive: false, debug: false },
  });
  const { server, close } = createToolServer(
    {
      ...{ cwd: path, openers, globals: { jobs: join(path, 'jobs') } },
      self: { executable: process.execPath, args: [MAIN], env: { PATH: process.env['PATH'] } },
      describe: (error) => describeFailure(error, { redact: openers.redact }),
    },
    options,
  );
  cleanups.push(close);
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  await server.connect(ours);
  return await connect(theirs);
}

describe('flowdrop mcp', () => {
  it('answers a question over ten sessions on stdin and stdout, with its dates and gaps, and ends with its client', async () => {
    // The configuration of the page, with the paths of this machine; clients start it anywhere.
    const [[, configuration] = ['', '{}']] = findSnippets('json mcp check');
    const { mcpServers } = JSON.parse(
      configuration
        .replace('"node"', JSON.stringify(process.execPath))
        .replace('/opt/flowdrop/', `${REPO}/`)
        .replace('/data/drops', join(cwd, 'drops'))
        .replace('/data/state', join(cwd, 'state')),
    ) as { readonly mcpServers: { readonly flowdrop: StdioServerParameters } };
    const { flowdrop: parameters } = mcpServers;
    const env = { ...parameters.env, FLOWDROP_LOG_LEVEL: 'debug' };
    const transport = new StdioClientTransport({ ...parameters, env, cwd: '/', stderr: 'ignore' });
    const strays: unknown[] = [];
    const { client, call } = await connect(transport);
    client.onerror = (error) => strays.push(error);
    const { pid } = transport;
    const sql = `SELECT date, count() AS n, sum(premium) AS p FROM trades WHERE date <= '2026-11-18' GROUP BY date ORDER BY date`;
    const [answer, tables] = await Promise.all([call('query', { sql }), call('query', { sql: 'SHOW TABLES' })]);
    expect(answer.json).toEqual({
      columns: [
        { name: 'date', type: 'Date32' },
        { name: 'n', type: 'UInt64' },
        { name: 'p', type: expect.stringContaining('Float64') },
      ],
      rows: SESSIONS.map((date, at) => [date, ROWS, ((ROWS * (ROWS + 1)) / 2) * (at + 1)]),
      basis: [
        {
          dataset: 'trades',
          dates: { count: 10, first: SESSIONS[0], last: SESSIONS[9], newest: SESSIONS.toReversed() },
          gaps: [
            expect.objectContaining({ what: 'degraded', count: 1, newest: [DEGRADED] }),
            expect.objectContaining({ what: 'pending', newest: ['2026-11-18'] }),
            expect.objectContaining({ what: 'missing', newest: ['2026-11-10'] }),
            expect.objectContaining({ what: 'expired', newest: ['2026-11-05'] }),
          ],
        },
      ],
    });
    expect(tables.json.rows.map(([name]) => name)).toContain('trades');
    expect(client.getInstructions()).toContain('describe');
    await client.close();
    expect(strays).toEqual([]);
    expect(() => process.kill(pid ?? 0, 0)).toThrow('ESRCH');
  });

  it('has three tools, all of which only read', async () => {
    const { client } = await openTools(cwd);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(['query', 'describe', 'report']);
    for (const { name, annotations, description } of tools) {
      expect(annotations, name).toMatchObject({ readOnlyHint: true });
      expect(description, name).toBeTruthy();
    }
  });

  it('refuses what the command line refuses, in its words and with its next command', async () => {
    const { call } = await openTools(cwd);
    const refused = [
      'DROP TABLE trades',
      "INSERT INTO trades VALUES ('x')",
      "SELECT * FROM file('/etc/passwd')",
      'SELECT 1 SETTINGS max_threads = 1',
      'SELECT 1; SELECT 2',
      'SELECT nothing FROM trades',
    ];
    for (const sql of refused) {
      const { isError, text } = await call('query', { sql });
      const { stderr, code } = await flowdrop(['query', sql], { cwd });
      expect([isError, text, code], sql).toEqual([true, stderr.trim(), 2]);
      expect(text, sql).toMatch(/^flowdrop: INVALID_\w+: .*\n(.*\n)* {2}-> /);
    }
    expect(await call('query', { sql: 'SELECT 1', settings: {} })).toMatchObject({ isError: true });
  });

  it('ends a query that would run for minutes, says so, and answers the next one', async () => {
    const { call } = await openTools(cwd, { timeout: 4 });
    // The engine's process takes its time to start on a busy machine, at first and when it replaces one that was ended.
    const answersAtLast = async (sql: string) =>
      await expect.poll(async () => (await call('query', { sql })).json.rows, { timeout: 60_000 }).toEqual([[1]]);
    await answersAtLast('SELECT 1');
    const startedMs = performance.now();
    const { isError, text } = await call('query', {
      sql: 'SELECT sum(a.premium * b.premium * c.premium) FROM trades a, trades b, trades c',
    });
    expect(performance.now() - startedMs).toBeLessThan(30_000);
    expect([isError, text]).toEqual([
      true,
      expect.stringContaining('QUERY_TIMEOUT: the query was ended after 4 seconds'),
    ]);
    expect(text).toContain('flowdrop mcp --timeout SECONDS');
    await answersAtLast('SELECT 1');
  });

  it('bounds rows and bytes of an answer, and says what is left out', async () => {
    const { call } = await openTools(cwd);
    const all = await call('query', { sql: 'SELECT id FROM trades ORDER BY id', max_rows: 7 });
    expect(all.json.rows).toHaveLength(7);
    expect(all.json.left_out).toContain('only the first 7 rows: an answer has at most 7 rows');
    const wide = await call('query', { sql: 'SELECT * FROM trades', max_rows: 1_000 });
    expect(wide.json.rows.length).toBeGreaterThan(100);
    expect(wide.json.left_out).toContain('at most 100.0 kB');
    expect(Buffer.byteLength(wide.text)).toBeLessThan(110_000);
    const long = await call('query', { sql: "SELECT repeat('x', 200000) AS long" });
    expect([long.json.rows, long.json.left_out]).toEqual([[], expect.stringContaining('Select fewer columns')]);
    const sql = "SELECT repeat('x', 1000000) AS long FROM trades LIMIT 40";
    expect((await call('query', { sql })).text).toMatch(/ANSWER_TOO_LARGE: .*40.* MB.*\n {2}-> /);
    expect((await call('query', { sql: 'SELECT 1', max_rows: 1_001 })).isError).toBe(true);
  });

  it('gives one revision of a store that is being restated while it is asked', async () => {
    const path = await openFolder();
    const store = await openDirectoryStore(join(path, 'drops'));
    cleanups.push(() => store.close());
    const { call } = await openTools(path);
    const publish = async (at: number, before?: Manifest) => {
      const built = restated[at % restated.length];
      if (built === undefined) throw new Error('there is no file');
      return await publishBuilt(store, built, before);
    };
    let current = await publish(0);
    let isOver = false;
    const sql = 'SELECT count(), min(premium), max(premium) FROM trades';
    const seen: Answer[] = [];
    const asking = (async () => {
      while (!isOver) seen.push(await call('query', { sql }));
    })();
    for (let at = 1; at <= RESTATEMENTS || new Set(seen.map(({ text }) => text)).size < 2; at += 1)
      current = await publish(at, current);
    isOver = true;
    await asking;
    expect(seen.filter(({ isError }) => isError)).toEqual([]);
    for (const { json } of seen) expect([[[30_000, 1, 1]], [[30_000, 2, 2]]]).toContainEqual(json.rows);
    const last = ((current.revision - 1) % 2) + 1;
    expect((await call('query', { sql })).json.rows).toEqual([[30_000, last, last]]);
  });

  it('opens a store that was not there when it started, and says until then what to do', async () => {
    const path = await openFolder();
    const { call } = await openTools(path);
    const { isError, text } = await call('describe');
    expect([isError, text]).toEqual([true, expect.stringContaining('STORE_MISSING')]);
    expect(text).toContain('Run the job first');
    await mkdir(join(path, 'drops'));
    expect((await call('query', { sql: 'SELECT count() FROM trades' })).text).toContain('ARCHIVE_EMPTY');
    const store = await openDirectoryStore(join(path, 'drops'));
    cleanups.push(() => store.close());
    await publishBuilt(store, restated[0] as BuiltDay);
    expect((await call('describe')).json.tables).toHaveProperty('trades');
  });

  it('refuses a time that is none', async () => {
    const { code, stderr } = await flowdrop(['mcp', '--timeout', '0'], { cwd });
    expect([code, stderr]).toEqual([2, expect.stringContaining('--timeout is 0; allowed is a number of seconds')]);
  });
});

describe('the tool describe', () => {
  it('names tables, formulas and all dates with their conditions', async () => {
    const { call } = await openTools(cwd);
    const { json } = await call('describe');
    expect(Object.keys(json)).toEqual(['tables', 'formulas', 'jobs_with_reports', 'basis']);
    expect(json.tables['trades']).toContain('2026-11-02 to 2026-11-17');
    expect(json.formulas).toContain('Zero gamma');
    expect(json.basis).toMatchObject([{ dataset: 'trades', dates: { count: 10, first: SESSIONS[0] } }]);
    const found = json.basis[0].gaps.flatMap(({ what, newest }) => newest.map((date) => [date, what]));
    expect(Object.fromEntries(found)).toMatchObject(GAPS);
  });

  it('gives the meaning of every column of trades and their summaries', async () => {
    const { call } = await openTools(mailed);
    for (const table of ['trades', 'trades_counted', 'trades_summary']) {
      const { json } = await call('describe', { table });
      const unknown = Object.keys(json.columns).filter((name) => !json.meanings.includes(`\`${name}\``));
      // The archive's own, which the page of `flowdrop query` explains.
      expect(
        unknown.filter((name) => name !== 'family' && name !== 'date'),
        table,
      ).toEqual([]);
    }
    expect((await call('describe', { table: 'nothing' })).text).toContain('INVALID_');
  });

  it('gives the text of a formula as the page has it, and the titles for one that does not exist', async () => {
    const { call } = await openTools(cwd);
    const { json } = await call('describe', { formula: 'ZERO gamma' });
    expect(json.formula).toContain('d1    = (ln(P / K) + sigma^2 T / 2) / (sigma sqrt(T))');
    expect(readSection('docs/formulas.md', 'Gamma and delta exposure')).toContain(json.formula);
    const { isError, text } = await call('describe', { formula: 'theta burn' });
    expect([isError, text]).toEqual([true, expect.stringMatching(/FORMULA_UNKNOWN.*"theta burn"\n.*Zero gamma/)]);
  });
});

describe('the tool report', () => {
  it('gives the numbers of the mailed report with definitions that give them again', async () => {
    const { call } = await openTools(mailed);
    const { json } = await call('report');
    const [part] = json.parts;
    expect(json).toMatchObject({ job: 'nightly', revision: 1, basis: [{ dataset: 'trades', dates: { count: 3 } }] });
    expect(json.basis[0].dates.last).toBe(json.date);
    expect(part).toMatchObject({ dataset: 'trades', date: json.date, condition: 'available' });
    const { numbers, levels } = part;
    const values = new Map(numbers.map(({ name, value }) => [name, value]));
    let again = 0;
    for (const { name, value, definition } of numbers) {
      expect(definition, name).toBeTruthy();
      const [whole, divisor] = definition.split(' / ').map((one) => values.get(one));
      if (whole !== undefined && divisor !== undefined) expect(value, name).toBeCloseTo(whole / divisor, 12);
      if (!definition.startsWith('SELECT ')) continue;
      const answer = await call('query', { sql: definition });
      expect(answer.json.rows[0]?.[0], `${name}: ${definition}`).toBeCloseTo(value, 4);
      again += 1;
    }
    expect(again).toBe(17);
    expect(numbers.find(({ name }) => name === 'premium')?.previous).toBeGreaterThan(0);
    expect(levels.find(({ name }) => name === 'zero_gamma')).toMatchObject({ label: 'Zero gamma', unit: 'price' });
  });

  it('says that the date was sealed again since, and names the reports that there are', async () => {
    const { call } = await openTools(mailed);
    const { date } = (await call('report')).json;
    const engine = await openEmbeddedEngine();
    const store = await openDirectoryStore(join(mailed, 'drops'));
    const before = await readManifest(join(mailed, 'drops'), date);
    await publishDay(engine, store, { date, rows: 10 }, before);
    await engine.close();
    await store.close();
    const { json } = await call('report', { date });
    expect(json.basis[0].gaps).toContainEqual(expect.objectContaining({ what: 'restated', newest: [date] }));
    expect((await call('report', { date: '2020-01-02' })).text).toMatch(/REPORT_NOT_ARCHIVED: .*\n.*Available: /);
    expect((await call('report', { job: 'weekly' })).text).toMatch(/JOB_UNCLEAR: .* nightly\n/);
    const none = await openTools(cwd);
    expect((await none.call('report')).text).toContain('`flowdrop report JOB` mails one');
  });
});
