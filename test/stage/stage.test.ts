/**
 * The stage on a real embedded engine: whole pages, once; what does not fit is refused; kills leave whole pages; two
 * processes never share a path. Types of the drop are tested in `test/seal`.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { formatWindow } from '../../src/calendar/window.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { withRepeatedIds } from '../../src/engine/repeated-ids.ts';
import { countRepeats, countReplaced, countStaged, secondKey } from '../../src/stage/count.ts';
import { openStage, type Stage } from '../../src/stage/stage.ts';
import { listStages } from '../../src/stage/stage-table.ts';
import { useCleanups } from '../support/cleanups.ts';
import { createRandom } from '../support/random.ts';
import { createJob, createPage, createTrade, DATE, stageTrades, type TradeRow, windowAt } from '../support/trades.ts';

const CHILD = fileURLToPath(new URL('stage-pages.ts', import.meta.url));
const job = createJob();
const { folder: makeFolder } = useCleanups();
let folder: string;
let engine: Engine;
let stage: Stage;
const children: ChildProcess[] = [];

/** A child that is killed at the end of the test whatever happens; `lines` is what it prints. */
function startChild(path: string): { child: ChildProcess; lines: AsyncIterableIterator<string> } {
  const child = spawn(process.execPath, ['--import', 'tsx', CHILD, path], { stdio: ['ignore', 'pipe', 'ignore'] });
  children.push(child);
  if (!child.stdout) throw new Error('the child has no stdout');
  return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() };
}

beforeAll(async () => {
  folder = await makeFolder();
});

afterAll(async () => await engine.close());

// Before the engine of this process is opened: a process has one data path.
describe('another process', () => {
  afterEach(() => {
    for (const child of children) child.kill('SIGKILL');
  });

  test('that uses the path is told of by an active fault, and kills in the middle of inserts leave whole pages', async () => {
    const seed = 20_261_120;
    const random = createRandom(seed);
    const path = join(folder, 'used');
    let acknowledged = -1;
    for (let round = 0; round < 3; round += 1) {
      const { child, lines } = startChild(path);
      await lines.next();
      if (round === 0) {
        await expect(openEmbeddedEngine({ path })).rejects.toMatchObject({ code: 'ENGINE_BUSY', kind: 'active' });
        // In another container the holder has a number that means nothing here: then the lock tells.
        const status = join(path, 'status');
        await writeFile(status, (await readFile(status, 'utf8')).replace(/PID: \d+/, 'PID: 4194303'));
        await expect(openEmbeddedEngine({ path })).rejects.toMatchObject({ code: 'ENGINE_BUSY', kind: 'active' });
      }
      const pages = acknowledged + 2 + Math.floor(random() * 6);
      for await (const line of lines) {
        acknowledged = Math.max(acknowledged, Number(line));
        if (acknowledged >= pages) break;
      }
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    engine = await openEmbeddedEngine({ path });
    stage = await openStage(engine, job, DATE, '');
    const windows = await stage.windows();
    expect(windows.length, `seed ${seed}`).toBeGreaterThan(acknowledged);
    expect(
      windows.filter(({ rows }) => rows !== 2000),
      `seed ${seed}`,
    ).toEqual([]);
    expect((await stage.totals()).ids, `seed ${seed}`).toBe(windows.length * 2000);
    await stage.discard();
  });
});

describe('a page', () => {
  beforeEach(async () => {
    stage = await openStage(engine, job, DATE, '');
  });
  afterEach(async () => {
    await stage.discard();
  });

  const rows = Array.from({ length: 3000 }, (_, k) => createTrade(k));
  const put = async (changes: TradeRow, at = rows.length - 1) =>
    await stage.put(windowAt(0), createPage(rows.map((row, k) => (k === at ? { ...row, ...changes } : row))));

  test('is in once, however often it is put', async () => {
    for (let time = 0; time < 3; time += 1) await stage.put(windowAt(0), createPage(rows));
    expect(await stage.totals()).toEqual({ rows: 3000, ids: 3000 });
    expect(await stage.windows()).toEqual([{ window: windowAt(0), rows: 3000 }]);
  });

  test('is in once when it is put twice at the same time', async () => {
    await Promise.all([0, 1, 0].map((at) => stage.put(windowAt(at), createPage(rows))));
    expect((await stage.windows()).map(({ rows: count }) => count)).toEqual([3000, 3000]);
  });

  test('is one part of the table, however large, so that a kill leaves all of it or nothing', async () => {
    const large = Array.from({ length: 150_000 }, (_, k) => createTrade(k));
    await engine.command(`SYSTEM STOP MERGES ${stage.table}`);
    await stage.put(windowAt(0), createPage(large));
    const name = stage.table.replaceAll('`', '');
    expect(await engine.rows(`SELECT rows FROM system.parts WHERE table = '${name}' AND active AND rows > 0`)).toEqual([
      { rows: 150_000 },
    ]);
  });

  test('that waits for another goes in with others that wait, and each row has the window it came with', async () => {
    const pages = Array.from({ length: 7 }, (_, page) =>
      Array.from({ length: 50 + page }, (_, k) => createTrade(page * 100 + k)),
    );
    await engine.command(`SYSTEM STOP MERGES ${stage.table}`);
    await Promise.all(pages.map((some, page) => stage.put(windowAt(page), createPage(some))));
    const staged = (await stage.windows()).map(({ window, rows: count }) => [window.from.second, count]).sort();
    expect(staged).toEqual(pages.map((some, page) => [page, some.length]));
    const ids = await engine.rows<{ w: string; ids: string[] }>(
      `SELECT _window AS w, arraySort(groupArray(id)) AS ids FROM ${stage.table} GROUP BY w`,
    );
    for (const { window } of await stage.windows()) {
      const expected = pages[window.from.second]?.map((row) => String(row['id'])).sort();
      expect(ids.find(({ w }) => w === formatWindow(window))?.ids).toEqual(expected);
    }
    const name = stage.table.replaceAll('`', '');
    const [parts] = await engine.rows<{ n: number }>(
      `SELECT count() AS n FROM system.parts WHERE table = '${name}' AND active`,
    );
    expect(Number(parts?.n)).toBeLessThan(pages.length);
  });

  test('leaves no file behind, whether it is taken or refused', async () => {
    await stage.put(windowAt(0), createPage(rows));
    await expect(put({ strike: 'high' }, 3)).resolves.toBeUndefined(); // Its window is in already.
    await stage.put(windowAt(1), createPage([createTrade(0, { strike: 'high' }), createTrade(1)]));
    const cut = createPage([createTrade(0)]);
    await expect(stage.put(windowAt(2), { ...cut, data: cut.data.subarray(0, -9) })).rejects.toThrow();
    const [disk] = await engine.rows<{ path: string }>("SELECT path FROM system.disks WHERE name = 'default'");
    const spool = join(disk?.path ?? '', 'pages', stage.table.replaceAll('`', ''));
    expect(await readdir(spool)).toEqual([]);
    await writeFile(join(spool, 'left.json'), '{');
    await openStage(engine, job, DATE, '');
    await expect(readdir(spool)).rejects.toThrow('ENOENT');
  });

  test.each([
    ['two rows without a comma', (text: string) => text.replace('},{', '}x{')],
    ['a cut', (text: string) => `${text.slice(0, text.length - 500)}]`],
    ['an array that ends before the end', (text: string) => text.replace('},{', '}],{')],
  ])('with %s is refused whole', async (_title, garble) => {
    const page = createPage(rows);
    const data = Buffer.from(garble(Buffer.from(page.data).toString('utf8')));
    await expect(stage.put(windowAt(0), { ...page, data })).rejects.toMatchObject({ code: 'PAGE_REFUSED' });
    expect((await stage.totals()).rows).toBe(0);
  });

  test('without rows is nothing', async () => {
    await stage.put(windowAt(0), createPage([]));
    expect(await stage.windows()).toEqual([]);
  });

  test('without a column is refused by its name and with what there is', async () => {
    await expect(stage.put(windowAt(0), createPage([{ id: 'x', foo: 1 }]))).rejects.toMatchObject({
      code: 'PAGE_REFUSED',
      message: expect.stringMatching(/no field "symbol".*it has id, foo/),
    });
  });

  test('keeps fields that the contract does not name, as they came', async () => {
    const odd = { 'we: ird (at row 3)': 'text', 'x`y"z': 5, nested: { a: [1, 'b'] }, flag: true };
    await put(odd, 7);
    expect(await stage.extraFields()).toEqual(Object.keys(odd));
    const [row] = await engine.rows(`SELECT * FROM ${stage.table} WHERE id = '${rows[7]?.['id']}'`);
    expect(row).toMatchObject({ 'we: ird (at row 3)': 'text', 'x`y"z': '5', flag: 'true' });
    expect(JSON.parse((row as { nested: string }).nested)).toEqual({ a: [1, 'b'] });
    await stage.put(windowAt(1), createPage([createTrade(5000)]));
    expect((await stage.totals()).rows).toBe(3001);
  });

  test('with more new fields than an answer can have is refused', async () => {
    const garbage = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`f${i}`, i]));
    await expect(put(garbage)).rejects.toMatchObject({ code: 'PAGE_REFUSED' });
    expect((await stage.totals()).rows).toBe(0);
  });

  test('beside others at the same time, some of them refused, is in whole', async () => {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 12 }, async (_, page) => {
        const some = Array.from({ length: 1000 }, (_, i) => createTrade(page * 1000 + i));
        const { data, ...told } = createPage(some);
        const sent = { ...told, data: page % 3 === 0 ? data.subarray(0, -9) : data };
        await Promise.all([stage.put(windowAt(page), sent), stage.totals()]);
      }),
    );
    expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(4);
    expect(await stage.totals()).toEqual({ rows: 8000, ids: 8000 });
  });
});

describe('the stage of a date', () => {
  beforeEach(async () => {
    stage = await openStage(engine, job, DATE, '');
  });
  afterEach(async () => {
    await stage.discard();
  });

  test('forgets windows, takes them again, and still has the others once', async () => {
    await stageTrades(stage, 900, 300);
    await stage.forget([windowAt(1)]);
    expect((await stage.windows()).map(({ window }) => window.from.second).sort()).toEqual([0, 2]);
    await stageTrades(stage, 900, 300);
    expect(await stage.totals()).toEqual({ rows: 900, ids: 900 });
    await stage.forget([windowAt(0), windowAt(1), windowAt(2)]);
    expect(await stage.totals()).toEqual({ rows: 0, ids: 0 });
    await stageTrades(stage, 900, 300);
    expect(await stage.totals()).toEqual({ rows: 900, ids: 900 });
  });

  test('keeps the fields of the remaining windows when it forgets one', async () => {
    await stage.put(windowAt(0), createPage([createTrade(0, { extra: 'kept' })]));
    await stage.put(windowAt(1), createPage([createTrade(1)]));
    await stage.forget([windowAt(1)]);
    expect(await stage.extraFields()).toEqual(['extra']);
    expect(await engine.rows(`SELECT extra FROM ${stage.table}`)).toEqual([{ extra: 'kept' }]);
  });

  test('counts the same in one pass and in many', async () => {
    await stage.put(
      windowAt(0),
      createPage([...Array.from({ length: 500 }, (_, k) => createTrade(k)), createTrade(7)]),
    );
    const key = secondKey(job, DATE);
    const once = await countStaged<number>(engine, job, stage.table, key);
    const often = await countStaged<number>(engine, job, stage.table, key, { passIds: 50 });
    expect([...often].sort()).toEqual([...once].sort());
    expect([...once.values()].reduce((sum, { ids }) => sum + ids, 0)).toBe(500);
    expect([...once.values()].reduce((sum, count) => sum + count.rows, 0)).toBe(501);
  });

  test('finds repeated ids in one pass and in many, and keeps no table of them', async () => {
    const trades = Array.from({ length: 500 }, (_, k) => createTrade(k));
    const corrected = createTrade(9, { updated_timestamp: '1790000000000' });
    await stage.put(windowAt(0), createPage([...trades, createTrade(7), createTrade(8), createTrade(8), corrected]));
    const read = async (repeated: string) => {
      const found = await engine.rows<{ id: string }>(`SELECT id FROM ${repeated}`);
      return found.map(({ id }) => id).sort();
    };
    const ids = [7, 8, 9].map((k) => createTrade(k)['id']).sort();
    for (const passIds of [1000, 50]) {
      expect(await withRepeatedIds(engine, stage.table, ['id'], read, passIds)).toEqual(ids);
      // The corrected one is another version.
      expect(await countRepeats(stage, 'version', passIds)).toBe(3);
      expect(await countReplaced(stage, passIds)).toBe(4);
    }
    const fail = async () => await Promise.reject(new RangeError('while it is used'));
    await expect(withRepeatedIds(engine, stage.table, ['id'], fail)).rejects.toThrow(RangeError);
    expect(await engine.rows("SELECT name FROM system.tables WHERE name LIKE 'repeated%'")).toEqual([]);
  });

  test('is listed by its date, also when a kill inside `forget` left a second table', async () => {
    await engine.command(`CREATE TABLE ${stage.table.replace(/`$/, '_fresh`')} AS ${stage.table}`);
    await (await openStage(engine, job, '2026-11-18', '')).windows();
    expect(await listStages(engine)).toEqual(['2026-11-18', DATE]);
    await (await openStage(engine, job, '2026-11-18', '')).discard();
    await stage.discard();
    expect(await engine.rows("SELECT name FROM system.tables WHERE name LIKE 'stage_trades%'")).toEqual([]);
  });
});
