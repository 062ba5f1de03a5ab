/**
 * The data behind `flowdrop serve --store`: a sealed dataset as a backend of the service. It joins the archive, which
 * knows the drops, with the service, which knows the API; neither knows the other.
 */
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { LIVE_SETTINGS, openLiveArchive } from '../archive/live-archive.ts';
import { makeFolder } from '../core/atomic-file.ts';
import { systemClock } from '../core/clock.ts';
import { openParser } from '../guard/parser.ts';
import { Ledger } from '../ledger/ledger.ts';
import { type Backend, type BackendParts, MAX_WAITING } from '../service/backend.ts';
import { MAX_RESULT_BYTES } from '../service/historical/query-runner.ts';
import { makeServiceFolder, removeServiceFolder } from '../service/service-folder.ts';
import { workerCommand } from './child.ts';
import type { CliContext } from './context.ts';
import { listReadable } from './query/query-dataset.ts';

interface ArchiveCli extends Pick<CliContext, 'self'> {
  readonly openers: Pick<CliContext['openers'], 'openStore' | 'openWorkers' | 'readAccess'>;
}

export interface ArchivePlace {
  /** `s3://...` or a directory, as in a job file. */
  readonly store: string;
  readonly dataset: string;
}

/**
 * @param concurrency queries that run at the same time
 * @throws Fault `DATASET_UNKNOWN`, `ARCHIVE_EMPTY`, `NO_TRADES`, `ARCHIVE_LOCATION_INVALID` (usage), `DROP_DAMAGED`, StoreFault
 */
export async function openArchiveBackend(
  { openers, self }: ArchiveCli,
  { store: to, dataset: name }: ArchivePlace,
  concurrency: number,
  { log, onRestart }: Pick<BackendParts, 'log' | 'onRestart'>,
): Promise<Backend> {
  const closers: (() => Promise<void>)[] = [];
  const close = async () => {
    for (const end of closers.splice(0).reverse()) await end();
  };
  try {
    const store = await openers.openStore(to);
    closers.push(() => store.close());
    await listReadable(store, { to, trades: name, datasets: [] });
    const temporary = await makeServiceFolder();
    closers.push(() => removeServiceFolder(temporary));
    const folder = join(await realpath(temporary), 'archive');
    await makeFolder(folder);
    const archive = await openLiveArchive({
      store,
      dataset: name,
      readManifest: (dataset, date, drops) => new Ledger(store, dataset).manifestOf(date, drops),
      readAccess: () => openers.readAccess(to),
      folder,
      clock: systemClock,
    });
    const limits = { maxWaiting: MAX_WAITING, maxResultBytes: MAX_RESULT_BYTES, onRestart };
    const open = async (part: string, size: number) => {
      const command = workerCommand(self);
      const pool = await openers.openWorkers({ ...limits, command, folder: join(temporary, part), size });
      closers.push(() => pool.close());
      return pool;
    };
    const parser = openParser(await open('parser', 1));
    const pool = await open('workers', concurrency);
    const dates = await archive.readDates();
    const [first, last] = [dates[0], dates.at(-1)];
    log.info({ event: 'archive-opened', store: store.url, dataset: name, dates: dates.length, first, last }, 'opened');
    return {
      pool,
      parser,
      dataset: {
        databases: archive.databases,
        // To count them, the manifests of all years would have to be read.
        rows: null,
        lookbackDays: undefined,
        stream: (engine, statement) => archive.stream(engine, statement),
      },
      snapshots: undefined,
      settings: LIVE_SETTINGS,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
