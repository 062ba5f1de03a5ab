/**
 * A dataset's folder as Python's readers take it: pandas, pyarrow, Polars and DuckDB, each in the ways that its users type
 * it. Each must count and sum every date as the manifest's own file has it, before and after a restatement, and while a
 * date is restated over and over.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { publishDrop } from '../../src/ledger/publish.ts';
import { readManifest } from '../../src/ledger/sealed-dates.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { queryDuckDb } from '../support/drop.ts';
import { flowdrop, makeFolder, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createDraft } from '../support/manifest.ts';
import { findPython } from '../support/python.ts';

const SCRIPT = new URL('read_folder.py', import.meta.url).pathname;
/** Skipped where Python or its packages cannot be had, which `support/python.ts` says aloud; CI never skips it. */
const python = findPython();

type Answer = Readonly<Record<string, readonly [rows: number, premium: number]>>;

async function read(
  folder: string,
  ...more: readonly string[]
): Promise<readonly (readonly [string, Answer, number])[]> {
  const child = spawn(python.path, [SCRIPT, folder, ...more], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  await once(child, 'close');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

/** What the files say, each read by its own path. */
async function readTruth(folder: string, dates: readonly string[]): Promise<Answer> {
  const truth: Record<string, readonly [number, number]> = {};
  for (const date of dates) {
    const [sums] = await queryDuckDb(
      `SELECT count(*)::INTEGER AS n, round(sum(premium), 2) AS total FROM read_parquet('${folder}/session=${date}/trades.parquet', hive_partitioning = false)`,
    );
    truth[date] = [Number(sums?.['n']), Number(sums?.['total'])];
  }
  return truth;
}

let cwd: string;
beforeEach(async () => {
  const { path, remove } = await makeFolder();
  cwd = path;
  return remove;
});

describe.skipIf(python.isMissing)('the folder of a dataset', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService(['--generate', '3', '--generate-rows', '2000']);
  }, 120_000);
  afterAll(async () => await service.stop());

  it('is read as it is by every reader, each date once and whole', async () => {
    const job = await writeJob(cwd, { reports: '' });
    const run = await flowdrop(['run', job], { cwd, env: service.env });
    expect(run.code, run.stderr).toBe(0);
    const folder = join(cwd, 'drops', 'trades');
    const store = await openDirectoryStore(join(cwd, 'drops'));
    const answers = await read(folder);
    expect(answers.length).toBeGreaterThan(9);
    const dates = Object.keys(answers[0]?.[1] ?? {});
    expect(dates).toHaveLength(3);
    const truth = await readTruth(folder, dates);
    for (const date of dates) expect(truth[date]?.[0]).toBe((await readManifest(store, 'trades', date))?.rows);
    for (const [reader, answer] of answers) expect(answer, reader).toEqual(truth);
  }, 120_000);
});

describe.skipIf(python.isMissing)('the folder of a dataset, while a date is restated a hundred times,', () => {
  const [DATE, OTHER] = ['2026-11-19', '2026-11-18'];
  const REVISIONS = 100;
  let engine: Engine;
  beforeAll(async () => {
    engine = await openEmbeddedEngine();
  });
  afterAll(async () => await engine.close());

  /** Revision `n` of a date: its own number of rows and sum. */
  async function writeRevision(date: string, n: number): Promise<string> {
    const path = join(cwd, 'work', `${date}.parquet`);
    await engine.command(
      `SELECT toDate32('${date}') AS date, toFloat64(${n}) AS premium, repeat(toString(cityHash64(number, ${n})), 4) AS id FROM numbers(${20_000 + n}) INTO OUTFILE '${path}' TRUNCATE FORMAT Parquet`,
    );
    return path;
  }

  it('has each date once, whole and of one revision for pandas, pyarrow and DuckDB', async () => {
    const store = await openDirectoryStore(join(cwd, 'store'));
    await mkdir(join(cwd, 'work'));
    const publish = async (date: string, n: number) => {
      const supersedes = await readManifest(store, 'trades', date);
      await publishDrop(store, { drop: await writeRevision(date, n) }, { ...createDraft({}), date }, { supersedes });
    };
    await publish(OTHER, 7);
    await publish(DATE, 1);
    const stop = join(cwd, 'stop');
    const reading = read(join(cwd, 'store', 'trades'), stop);
    for (let n = 2; n <= REVISIONS; n += 1) await publish(DATE, n);
    await writeFile(stop, '');
    // Polars opens a file twice, so it may meet two revisions of one that is replaced: docs/drops.md says so.
    const seen = (await reading).filter(([reader]) => !reader.startsWith('polars'));
    const ofRevision = (n: number) => [20_000 + n, (20_000 + n) * n];
    const valid = new Set(Array.from({ length: REVISIONS }, (_, k) => JSON.stringify(ofRevision(k + 1))));
    const wrong = seen.filter(
      ([, answer]) =>
        Object.keys(answer).length !== 2 ||
        JSON.stringify(answer[OTHER]) !== JSON.stringify(ofRevision(7)) ||
        !valid.has(JSON.stringify(answer[DATE])),
    );
    expect(wrong).toEqual([]);
    // The readers met many of the revisions.
    expect(new Set(seen.map(([, answer]) => JSON.stringify(answer[DATE]))).size).toBeGreaterThan(10);
  }, 240_000);
});
