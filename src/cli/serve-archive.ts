/**
 * The data behind `flowdrop serve --store`: a sealed dataset as a backend of the service. It joins the archive, which
 * knows the drops, with the service, which knows the API; neither knows the other.
 */
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { LIVE_SETTINGS, openLiveArchive } from '../archive/live-archive.ts';
import { makeFolder } from '../core/atomic-file.ts';
import { openParser } from '../guard/parser.ts';
import type { Backend, BackendParts } from '../service/backend.ts';
import type { CliContext } from './context.ts';
import { listReadable } from './query/dataset.ts';

interface ArchiveCli {
  readonly openers: Pick<CliContext['openers'], 'openStore' | 'readAccess'>;
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
  { openers }: ArchiveCli,
  { store: to, dataset: name }: ArchivePlace,
  concurrency: number,
  { log, folder: temporary, startEngines, closers }: BackendParts,
): Promise<Backend> {
  const store = await openers.openStore(to);
  closers.push(() => store.close());
  await listReadable(store, { to, trades: name, datasets: [] });
  const folder = join(await realpath(temporary), 'archive');
  await makeFolder(folder);
  const archive = await openLiveArchive({
    store,
    dataset: name,
    readAccess: () => openers.readAccess(to),
    folder,
  });
  const parser = openParser(await startEngines(join(temporary, 'parser'), 1));
  const pool = await startEngines(join(temporary, 'workers'), concurrency);
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
  };
}
