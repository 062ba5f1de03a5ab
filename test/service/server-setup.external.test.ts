/**
 * The service's databases, views and users on a server: on a real old one over the wire, and on the present engine with the profile and the rights that docs/examples/clickhouse-users.sql gives (the
 * embedded engine takes users from a file only, so the file is made from that SQL).
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Session } from 'chdb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TABLES } from '../../src/api-contract/published-limits.ts';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { EngineFault } from '../../src/engine/engine-fault.ts';
import { quoteString } from '../../src/engine/literal.ts';
import type { PooledEngine } from '../../src/engine/pool.ts';
import {
  openServerEngine,
  openServerPool,
  readCapabilities,
  type ServerEngine,
  type ServerPool,
} from '../../src/engine/server.ts';
import { checkServer } from '../../src/service/data/server-backend.ts';
import { planStatements, SERVER_TABLES, type ServerPlan, setUpServer } from '../../src/service/data/server-setup.ts';
import { settingsSql } from '../../src/service/historical/query-runner.ts';
import { SERVICE_DEFAULTS } from '../../src/service/options.ts';
import { startClickHouse } from '../support/clickhouse-server.ts';
import { REPO } from '../support/flowdrop.ts';

const { server, reason } = await startClickHouse();
const documented = await readFile(join(REPO, 'docs/examples/clickhouse-users.sql'), 'utf8');

const PLAN: ServerPlan = { offsetSeconds: 0, order: 'time', scanLimit: 10_000_000 };

const MINUTE = 60;
const DAY = 86_400;
/** Trades so many seconds ago, by the server's clock. */
const AGES = [0, 14 * MINUTE, 16 * MINUTE, 2 * DAY, 15 * DAY - 5 * MINUTE, 15 * DAY + 5 * MINUTE, 3_000 * DAY];
const VISIBLE_AGES = [16 * MINUTE, 2 * DAY, 15 * DAY - 5 * MINUTE];

const insertAges = `INSERT INTO ${SERVER_TABLES.trades} (id, date, time)
  SELECT toString(age), substring(at, 1, 10), at FROM (
    SELECT age, toString(toTimeZone(now() - toInt32(age), 'America/New_York')) AS at
    FROM (SELECT arrayJoin([${AGES.join(', ')}]) AS age))`;
const seenAges = async (engine: Pick<PooledEngine, 'rows'>, table: string) =>
  (await engine.rows<{ age: number }>(`SELECT toInt64(id) AS age FROM ${table} ORDER BY age`)).map(({ age }) => age);

afterAll(async () => {
  await server?.stop();
});

// Skipped only where no server can be had, which `support/clickhouse-server.ts` says aloud; CI never skips it.
describe.skipIf(server === undefined)('an old server, over the wire', () => {
  let admin: ServerEngine;
  let pool: ServerPool;

  const asReader = <T>(task: (engine: PooledEngine) => Promise<T>) =>
    pool.use({ owner: 'test', signal: new AbortController().signal }, task);
  const check = (capabilities = pool.capabilities) => asReader((engine) => checkServer(engine, capabilities));

  beforeAll(async () => {
    if (server === undefined) throw new Error(reason);
    admin = await openServerEngine({ url: server.adminUrl });
    await admin.command('CREATE DATABASE flowdrop');
    pool = await openServerPool({ url: server.readerUrl, size: 2, maxWaiting: 5 });
  });

  afterAll(async () => {
    await pool?.close();
    await admin?.close();
  });

  test('a server without the views is refused, with the statement that is missing', async () => {
    await expect(check()).rejects.toMatchObject({
      code: 'SERVER_NOT_READY',
      kind: 'usage',
      message: expect.stringContaining('flowdrop.RawOptionTrades'),
      hint: expect.stringContaining('GRANT SELECT ON flowdrop.RawOptionTrades'),
    });
  });

  test('doing the set-up twice is doing it once, and keeps the rows', async () => {
    await setUpServer(admin, PLAN);
    await admin.command(insertAges);
    await setUpServer(admin, PLAN);
    expect(await seenAges(admin, SERVER_TABLES.trades)).toHaveLength(AGES.length);
    expect(await admin.rows('SELECT count() AS rows FROM flowdrop.chains')).toEqual([{ rows: 0 }]);
  });

  test('a server that is ready is accepted, and what its user sees beside the views is told', async () => {
    const report = await check();
    expect(Math.abs(report.presentMs - Date.now())).toBeLessThan(60_000);
    expect(report.databases).toEqual(expect.arrayContaining(['flowdrop', 'flowdrop_data']));
    expect(report.warnings).toEqual([
      expect.stringContaining('24.2 is the oldest'),
      expect.stringContaining('flowdrop_data'),
    ]);
  });

  test('the views hide what is too young, too old, or before the first date', async () => {
    expect(await asReader((engine) => seenAges(engine, TABLES[0]))).toEqual(VISIBLE_AGES);
    expect(await asReader((engine) => seenAges(engine, SERVER_TABLES.visibleTrades))).toEqual(VISIBLE_AGES);
  });

  test('the view of the latest date has the newest date that is visible', async () => {
    const [latest] = await admin.rows<{ date: string }>(`SELECT max(date) AS date FROM ${SERVER_TABLES.visibleTrades}`);
    const dates = await asReader((engine) => engine.rows(`SELECT DISTINCT date FROM ${TABLES[1]}`));
    expect(dates).toEqual([{ date: latest?.date }]);
  });

  test('dates are told once each, hidden ones not', async () => {
    const dates = await asReader((engine) =>
      engine.rows<{ date: string }>(`SELECT date FROM ${SERVER_TABLES.dates} ORDER BY date`),
    );
    const wanted = await admin.rows(`SELECT DISTINCT date FROM ${SERVER_TABLES.visibleTrades} ORDER BY date`);
    expect(dates).toEqual(wanted);
  });

  test('the bounds follow the service’s clock where it is moved, and the first date holds', async () => {
    await setUpServer(admin, { ...PLAN, offsetSeconds: -DAY - 0.4 });
    expect(await asReader((engine) => seenAges(engine, TABLES[0]))).toEqual([
      2 * DAY,
      15 * DAY - 5 * MINUTE,
      15 * DAY + 5 * MINUTE,
    ]);
    const [last] = await admin.rows<{ date: string }>(
      `SELECT max(date) AS date FROM ${SERVER_TABLES.trades} WHERE id = '${2 * DAY}'`,
    );
    await setUpServer(admin, { ...PLAN, earliest: last?.date ?? '' });
    expect(await asReader((engine) => seenAges(engine, TABLES[0]))).toEqual([16 * MINUTE, 2 * DAY]);
    await setUpServer(admin, PLAN);
  });

  test('the service’s user writes nothing and lifts nothing', async () => {
    for (const sql of [
      `INSERT INTO ${SERVER_TABLES.trades} (id) VALUES ('x')`,
      'CREATE TABLE flowdrop.mine (id String) ENGINE = Memory',
      `DROP TABLE ${TABLES[0]}`,
      `ALTER TABLE ${SERVER_TABLES.trades} DELETE WHERE 1`,
      'SET readonly = 0',
      'SELECT 1 SETTINGS readonly = 0',
      'SELECT 1 SETTINGS allow_ddl = 1',
    ])
      await expect(asReader((engine) => engine.command(sql))).rejects.toThrow(EngineFault);
  });

  test('a user that may write, or cannot be limited, is refused', async () => {
    for (const readonly of [0, 1] as const)
      await expect(check({ ...pool.capabilities, readonly })).rejects.toMatchObject({
        code: 'SERVER_NOT_READY',
        hint: expect.stringContaining('readonly'),
      });
    const own = await openServerPool({
      url: server?.adminUrl.replace(/default$/, 'flowdrop') ?? '',
      size: 1,
      maxWaiting: 1,
    });
    const request = { owner: 'test', signal: new AbortController().signal };
    expect(own.capabilities.readonly).toBe(0);
    // What the setting says is not believed either.
    const checking = own.use(request, (engine) => checkServer(engine, { ...own.capabilities, readonly: 2 }));
    await expect(checking).rejects.toMatchObject({
      code: 'SERVER_NOT_READY',
      message: expect.stringContaining('insert'),
    });
    await own.close();
  });

  test('a view with a wrong column is refused by the column’s name', async () => {
    await admin.command(`DROP TABLE flowdrop.${TABLES[1]}`);
    const columns = TRADE_COLUMNS.map(({ name }) => (name === 'strike' ? 'toString(strike) AS strike' : name));
    await admin.command(
      `CREATE VIEW flowdrop.${TABLES[1]} AS SELECT ${columns.join(', ')} FROM ${SERVER_TABLES.trades}`,
    );
    await expect(check()).rejects.toMatchObject({
      message: expect.stringContaining('strike (String; allowed is float)'),
    });
    await setUpServer(admin, PLAN);
    expect((await check()).databases).toContain('flowdrop');
  });
});

describe('the present engine, with the documented users', () => {
  let folder: string;
  let reader: TestSession;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'flowdrop-server-users-'));
    const owner = await openSession(folder, 'owner', '');
    // The reader must be the session's user, so the views get another one as their owner.
    for (const sql of [...planStatements(PLAN), insertAges])
      await owner.command(sql.replace('DEFINER = CURRENT_USER', 'DEFINER = owner'));
    owner.close();
    reader = await openSession(folder, 'reader', readerXml());
    await reader.command('USE flowdrop');
  });

  afterAll(async () => {
    reader?.close();
    await rm(folder, { recursive: true, force: true });
  });

  test('the views are read without a right on the data, and hide what they must', async () => {
    expect(await seenAges(reader, TABLES[0])).toEqual(VISIBLE_AGES);
    expect(await reader.rows(`SELECT count() > 0 AS some FROM ${TABLES[1]}`)).toEqual([{ some: 1 }]);
    expect(await reader.rows(`SELECT count() > 0 AS some FROM ${SERVER_TABLES.dates}`)).toEqual([{ some: 1 }]);
    await expect(reader.rows(`SELECT count() FROM ${SERVER_TABLES.trades}`)).rejects.toMatchObject({
      clickhouseCode: 497,
    });
  });

  test('it is accepted, and there is nothing to warn of', async () => {
    const report = await checkServer(reader, await readCapabilities(reader));
    expect(report).toMatchObject({ databases: ['flowdrop', 'system'], warnings: [] });
  });

  test.each([
    ['max_rows_to_read = 0', 452],
    ['max_rows_to_read = 20000001', 452],
    ['max_execution_time = 0', 452],
    ['max_memory_usage = 0', 452],
    ['max_result_bytes = 0', 452],
    ["read_overflow_mode = 'break'", 452],
    ["timeout_overflow_mode = 'break'", 452],
    ['readonly = 0', 164],
    ['allow_ddl = 1', 392],
  ])('SETTINGS %s is refused', async (setting, clickhouseCode) => {
    await expect(reader.rows(`SELECT 1 SETTINGS ${setting}`)).rejects.toMatchObject({ clickhouseCode });
  });

  test('the settings that the service sends are allowed', async () => {
    const settings = settingsSql(SERVICE_DEFAULTS.rowLimit, SERVICE_DEFAULTS.scanLimit);
    // Those that the constraints are about, and that no server may refuse.
    expect(settings).toMatch(/max_rows_to_read = .*max_execution_time = .*max_memory_usage = .*max_result_bytes = /);
    expect(await reader.rows(`SELECT 1 AS one ${settings}`)).toEqual([{ one: 1 }]);
  });

  test.each([
    "INSERT INTO flowdrop.chains VALUES ('x', 1)",
    'DROP TABLE flowdrop.chains',
    'CREATE TABLE flowdrop.mine (id String) ENGINE = Memory',
    "SELECT * FROM file('/etc/hostname', LineAsString)",
    "SELECT * FROM url('http://127.0.0.1:1/', LineAsString)",
    'SELECT * FROM flowdrop_data.session_times',
  ])('%s is refused', async (sql) => {
    await expect(reader.rows(sql)).rejects.toMatchObject({ clickhouseCode: 497 });
  });

  test('KILL QUERY is allowed', async () => {
    await reader.command("KILL QUERY WHERE query_id = 'none' SYNC");
  });
});

test('every statement of the documented users is SQL to the present engine', async () => {
  const statements = listStatements();
  expect(statements).toHaveLength(8);
  const engine = await openEmbeddedEngine();
  for (const sql of statements) {
    const [formatted] = await engine.rows<{ text: string }>(
      `SELECT formatQuerySingleLine(${quoteString(sql)}) AS text`,
    );
    expect(formatted?.text).toMatch(/^(CREATE|GRANT|ALTER)/);
  }
  await engine.close();
});

function listStatements(): readonly string[] {
  return documented
    .split(/;\n/)
    .map((sql) => sql.trim())
    .filter((sql) => sql !== '');
}

/** The documented profile and the rights of the newest servers, as a users file has them. */
function readerXml(): string {
  const profile = listStatements().find((sql) => sql.startsWith('CREATE SETTINGS PROFILE')) ?? '';
  const settings = [...profile.matchAll(/^ {2}(\w+) = (\S+?)( CONST| MIN (\d+) MAX (\d+))?,?$/gm)];
  expect(settings.length).toBeGreaterThan(10);
  const values = settings.map(([, name, value = '']) => `<${name}>${value.replaceAll("'", '')}</${name}>`);
  const constraints = settings.flatMap(([, name, , rule, min, max]) =>
    rule === undefined
      ? []
      : [`<${name}>${rule === ' CONST' ? '<const/>' : `<min>${min}</min><max>${max}</max>`}</${name}>`],
  );
  const grants = listStatements()
    .filter((sql) => /^GRANT SELECT ON (flowdrop\.\*|system\.)/.test(sql))
    .map((sql) => `<query>${sql.replace(/ TO .*/, '')}</query>`);
  expect(grants).toHaveLength(2);
  return `<profile>reader</profile><grants>${grants.join('')}</grants>
    |<reader>${values.join('')}<constraints>${constraints.join('')}</constraints></reader>`;
}

interface TestSession extends PooledEngine {
  close(): void;
}

/** The engine on `folder` with its only user as told; one session at a time. */
async function openSession(folder: string, name: string, xml: string): Promise<TestSession> {
  const [user = '', profile = ''] = xml.split('|');
  const rights = user === '' ? '<profile>default</profile><access_management>1</access_management>' : user;
  const common = '<password/><networks><ip>::/0</ip></networks><quota>default</quota>';
  await mkdir(join(folder, name));
  await writeFile(
    join(folder, name, 'users.xml'),
    `<clickhouse><profiles><default/>${profile}</profiles><users><default>${common}${rights}</default>
     <owner>${common}<profile>default</profile><access_management>1</access_management></owner></users>
     <quotas><default/></quotas></clickhouse>`,
  );
  const users = `<users_xml><path>${join(folder, name, 'users.xml')}</path></users_xml>`;
  const config = join(folder, name, 'config.xml');
  await writeFile(config, `<clickhouse><user_directories>${users}</user_directories></clickhouse>`);
  const session = new Session(join(folder, 'data'), { connectionArgs: [`--config-file=${config}`] });
  const run = async (sql: string, format: string) => {
    try {
      return await session.queryAsync(sql, { format });
    } catch (cause) {
      const code = (cause as { clickhouseCode?: number }).clickhouseCode;
      throw new EngineFault(code ?? 0, String(cause), cause);
    }
  };
  return {
    state: session,
    command: async (sql) => void (await run(sql, 'Null')),
    rows: async <Row extends object>(sql: string) =>
      (JSON.parse(Buffer.from((await run(sql, 'JSON')).bytes()).toString()) as { data: Row[] }).data,
    stream: () => Promise.reject(new TypeError('not needed here')),
    close: () => session.close(),
  };
}
