/**
 * An Iceberg table that is read while one of its dates is restated over and over. Each reader must see each date once,
 * whole and of one revision. The same for the plain folder is in `folder-readers.external.test.ts`.
 */
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { chooseSize } from '../support/nightly.ts';
import { commitDays } from '../support/table-days.ts';
import {
  readByClickHouse,
  readByIcebird,
  readUntil,
  SCRIPT_READERS,
  type TableFacts,
} from '../support/table-readers.ts';

const [OTHER, DATE] = ['2026-11-18', '2026-11-19'];
const OTHER_ROWS = 70;
const [MIN_REVISIONS, MIN_REVISIONS_MET] = chooseSize([20, 5] as const, [60, 15] as const);
/** A reader that does not even start by then fails; on a machine that has much else to do Spark takes minutes. */
const MOST_MS = 600_000;
const checkout = process.cwd();

type Folder = Awaited<ReturnType<typeof makeFolder>>;
let home: Folder;
let engine: Engine;
beforeAll(async () => {
  home = await makeFolder();
  // The engine reads tables only below the folder in which it was started.
  process.chdir(tmpdir());
  engine = await openEmbeddedEngine({ path: join(home.path, 'engine') });
});
afterAll(async () => {
  await engine.close();
  process.chdir(checkout);
  await home.remove();
});

/** One for each try. */
let folder: Folder;
let cwd: string;
let store: Store;
beforeEach(async () => {
  folder = await makeFolder();
  cwd = folder.path;
  store = await openDirectoryStore(join(cwd, 'store'));
});
afterEach(async () => await folder.remove());

const seal = async (date: string, rows: number) =>
  await commitDays(store, { scratch: join(cwd, 'scratch.parquet'), nowMs: Date.now() }, { date, rows });

/** A revision as `sealDay` writes it: its own number of rows, its own sum. */
function describeRevision(date: string, rows: number, revision: number): readonly [number, number, string, number] {
  const numbers = Array.from({ length: rows }, (_, n) => n);
  const premium = numbers.reduce((sum, n) => sum + n + revision / 1000, 0);
  const ids = numbers.map((n) => `${date}-${String(n).padStart(5, '0')}`).join(',');
  return [rows, Math.round(premium * 1000) / 1000, createHash('md5').update(ids).digest('hex'), 0];
}

const rowsOf = (revision: number) => 100 + (revision % 37);

it('a table has each date once, whole and of one revision for every reader while a date is restated', async () => {
  await seal(OTHER, OTHER_ROWS);
  await seal(DATE, rowsOf(1));
  const stop = join(cwd, 'stop');
  let hasStopped = false;
  const table = { store };
  const seen = new Map<string, TableFacts[]>();
  const note = (reader: string, facts: TableFacts) => seen.set(reader, [...(seen.get(reader) ?? []), facts]);
  const scripts = SCRIPT_READERS.filter(({ isMissing }) => !isMissing);
  const starting = new Set(scripts.map(({ reader }) => reader));
  const reading = [
    ...scripts.map(async (reader) => {
      const answers = await readUntil(stop, reader, table, () => starting.delete(reader.reader));
      for (const facts of answers) note(reader.reader, facts);
    }),
    (async () => {
      while (!hasStopped) {
        note('ClickHouse', await readByClickHouse(engine, table, null));
        note('icebird', await readByIcebird(table, null));
      }
    })(),
  ];
  // One that fails ends the restating.
  const ended = Promise.race(reading).then(
    () => {},
    () => {
      hasStopped = true;
    },
  );
  let revision = 1;
  let met = 0;
  try {
    const end = Date.now() + MOST_MS;
    while (!hasStopped && (revision < MIN_REVISIONS || met < MIN_REVISIONS_MET)) {
      if (Date.now() > end) throw new Error(`no answer after ${MOST_MS / 1000} s: ${[...starting].join(', ')}`);
      revision += 1;
      if (starting.size === 0) met += 1;
      await seal(DATE, rowsOf(revision));
    }
  } finally {
    hasStopped = true;
    await writeFile(stop, '');
  }
  await Promise.all([ended, ...reading]);
  const other = describeRevision(OTHER, OTHER_ROWS, 1);
  const valid = new Set(
    Array.from({ length: revision }, (_, n) => JSON.stringify(describeRevision(DATE, rowsOf(n + 1), n + 1))),
  );
  const round = ([rows, premium, ids, exchanges]: TableFacts[string]) =>
    JSON.stringify([rows, Math.round(premium * 1000) / 1000, ids, exchanges]);
  for (const [reader, answers] of seen) {
    const wrong = answers.filter((facts) => {
      const [first, second, ...more] = Object.keys(facts).sort();
      const [otherDay, day] = [facts[OTHER], facts[DATE]];
      if (first !== OTHER || second !== DATE || more.length > 0 || !otherDay || !day) return true;
      return round(otherDay) !== JSON.stringify(other) || !valid.has(round(day));
    });
    expect(wrong, reader).toEqual([]);
    // The reader met several revisions.
    const revisions = new Set(answers.map((facts) => round(facts[DATE] ?? other)));
    console.log(`${reader}: ${revisions.size} of ${revision} revisions`);
    expect(revisions.size, reader).toBeGreaterThan(1);
  }
  expect(seen.size).toBe(2 + scripts.length);
}, 900_000);
