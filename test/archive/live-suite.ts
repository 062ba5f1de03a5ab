/**
 * Reading while dates are restated all the time, in any kind of store, by a service and by `flowdrop query`: an answer has
 * the old or the new revision of a date, never a part of each, and all its dates as they were at one moment. Run over a
 * directory and over S3.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Manifest, ManifestDraft } from '../../src/ledger/manifest.ts';
import type { Store } from '../../src/store/store.ts';
import type { TestService } from '../service/running-service.ts';
import { type ArchiveStore, startArchiveService } from './archive-service.ts';
import { openTestArchive, type TestArchive } from './open-archive.ts';
import { type BuiltDay, buildDay, publishBuilt } from './publish-day.ts';

/** Restated in turn, A before B: at any moment A is as new as B, or one revision newer. */
const [A, B] = ['2026-11-18', '2026-11-19'];
/** Two row groups, so that a file is read in parts. */
const ROWS = 60_000;
/** Files that follow each other for ever: with three, "one newer" and "one older" differ. */
const VARIANTS = 3;
const RESTATEMENTS = 40;

export interface LivePlace extends ArchiveStore {
  /** What `drop.table` says. */
  readonly isTable: boolean;
  remove(): Promise<void>;
}

interface Seen {
  readonly date: string;
  readonly trades: number;
  readonly least: number;
  readonly most: number;
}

/** @param places by their names, for the titles */
export function describeRestatements(places: Readonly<Record<string, () => Promise<LivePlace>>>): void {
  const files: Record<string, BuiltDay[]> = { [A]: [], [B]: [] };
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'flowdrop-restated-'));
    const engine = await openEmbeddedEngine();
    for (const date of [A, B]) {
      for (let k = 0; k < VARIANTS; k += 1) {
        // The same number of rows each, so that the sizes of the files are the same or nearly so.
        const change = () => ({ premium: k + 1 });
        files[date]?.push(await buildDay(engine, { date, rows: ROWS, change }, folder));
      }
    }
    await engine.close();
  }, 300_000);
  afterAll(() => rm(folder, { recursive: true, force: true }));

  describe.each(Object.entries(places))('dates that are restated all the time, in %s', (name, open) => {
    let place: LivePlace;
    let store: Store;
    let service: TestService;
    /** As `flowdrop query` reads. */
    let archive: TestArchive;
    const current: Record<string, Manifest | undefined> = {};

    const publish = async (date: string, k: number) => {
      const file = files[date]?.[k % VARIANTS];
      if (file === undefined) throw new Error(`no file of ${date}`);
      const draft: ManifestDraft = place.isTable ? { ...file.draft, table: 'iceberg' } : file.draft;
      current[date] = await publishBuilt(store, { ...file, draft }, current[date]);
    };

    beforeAll(async () => {
      place = await open();
      store = await place.open();
      for (const date of [A, B]) await publish(date, 0);
      service = await startArchiveService(place, 'trades');
      archive = await openTestArchive(store, place.access, 'trades');
    });
    afterAll(async () => {
      await service?.stop();
      await archive?.stop();
      await store?.close();
      await place?.remove();
    });

    test('are answered in one revision each, all as of one moment', async () => {
      let isOver = false;
      const sql = `SELECT date, count() AS trades, min(premium) AS least, max(premium) AS most FROM RawOptionTrades
        GROUP BY date ORDER BY date`;
      const failures: string[] = [];
      const ask = async () => {
        const { status, body, text } = await service.ask(sql);
        if (status !== 200) throw new Error(`${status} ${text}`);
        return body.data as readonly Seen[];
      };
      const query = async () => (await archive.rows(sql)).rows as unknown as readonly Seen[];
      const readOften = async (read: typeof ask) => {
        const answers: (readonly Seen[])[] = [];
        while (!isOver) {
          await read().then(
            (answer) => answers.push(answer),
            (error: unknown) => failures.push(String(error)),
          );
        }
        return answers;
      };
      const readers = [ask, ask, query].map(readOften);
      for (let k = 1; k <= RESTATEMENTS; k += 1) {
        await publish(A, k);
        await publish(B, k);
      }
      isOver = true;
      const answers = await Promise.all(readers);
      const seen = answers.flat();
      expect(failures).toEqual([]);
      const mixed = seen.filter((dates) => dates.some(({ trades, least, most }) => trades !== ROWS || least !== most));
      expect(mixed).toEqual([]);
      const torn = seen.filter(([a, b]) => !a || !b || (a.most - b.most + VARIANTS) % VARIANTS > 1);
      expect(torn).toEqual([]);
      const revisions = new Set(seen.map((dates) => JSON.stringify(dates)));
      process.stdout.write(
        `${name}: ${seen.length} answers, ${revisions.size} different, over ${2 * RESTATEMENTS} restatements\n`,
      );
      for (const some of answers) expect(some.length).toBeGreaterThan(1);
      // The last answer began before the last restatement; a new one has it.
      const last = (RESTATEMENTS % VARIANTS) + 1;
      for (const read of [ask, query]) expect((await read()).map(({ most }) => most)).toEqual([last, last]);
    }, 300_000);
  });
}
