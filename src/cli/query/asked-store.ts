/**
 * The store whose drops `query` and `mcp` read: which one it is, and its archive, opened with an engine process of its own.
 * Invariant: what is opened is closed by `close`, in the middle of a statement too. Each statement lists the sealed dates
 * again; the datasets are those of the opening.
 */
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Families, KNOWN_FAMILIES } from '../../api-contract/family.ts';
import { type ArchiveAnswer, describeWorkers, openArchive } from '../../archive/archive.ts';
import type { AnswerFile } from '../../archive/output-format.ts';
import { previousSessions } from '../../calendar/session.ts';
import { Fault } from '../../core/errors.ts';
import { planWorkerMemory, readMemoryBytes } from '../../core/machine.ts';
import { findNearest } from '../../core/nearest.ts';
import { listJobFiles, readJob } from '../../job/job-folder.ts';
import { listDatasets } from '../../ledger/ledger.ts';
import { computeLookback } from '../../plan/dates.ts';
import type { Store } from '../../store/store.ts';
import { assertDirectory, type Call, type Cli, usage, workerCommand } from '../context.ts';

type StoreChoice = Call<'mcp'>['options'] & Pick<Call<'query'>['options'], 'apiTypes'>;

/** What of the program it takes. */
export type AskingCli = Pick<Cli, 'cwd' | 'globals' | 'openers' | 'self'>;

export type AskedStore = Awaited<ReturnType<typeof openAskedStore>>;

/**
 * @param maxWaiting statements that may wait for the one that runs
 * @throws Fault `USAGE`, `STORE_UNCLEAR`, `JOB_UNKNOWN`, `JOB_INVALID` (all usage), `STORE_MISSING`, `STORE_CHANGED`, StoreFault
 */
export async function openAskedStore(cli: AskingCli, options: StoreChoice, maxWaiting = 1) {
  const { openers, self } = cli;
  const { apiTypes } = options;
  const place = await findDataset(cli, options);
  const server = await openers.openQueryServer(options.engine);
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'flowdrop-query-')));
  // The engine's process starts while the store is opened and listed.
  const workers = openers.openWorkers({ ...describeWorkers(folder), maxWaiting, command: workerCommand(self) });
  workers.catch(() => {}); // The query reports it, unless something else failed before.
  let store: Store | undefined;
  try {
    store = await openers.openStore(place.to);
    const calendar = await openers.readCalendar();
    const datasets = await listReadable(store, place);
    const archive = await openArchive({
      store,
      readAccess: () => openers.readAccess(place.to),
      datasets,
      trades: place.trades,
      types: apiTypes ? 'api' : 'typed',
      // The API has no such column.
      families: apiTypes ? undefined : place.families,
      calendar,
      folder,
      server,
    });
    /** The last session that should be sealed by now. */
    const findLastSession = () => {
      const { lastSettled, firstWhole } = computeLookback(openers.clock.now(), calendar);
      return lastSettled ?? previousSessions(firstWhole, 1, calendar)[0] ?? firstWhole;
    };
    const query = async (request: Omit<AnswerFile, 'limits'> & { readonly sql: string }): Promise<ArchiveAnswer> =>
      await archive.query(await workers, {
        ...request,
        lastSession: findLastSession(),
        maxMemoryBytes: planWorkerMemory(readMemoryBytes()),
      });
    return { store, datasets, calendar, folder, findLastSession, query, close };
  } catch (error) {
    await close();
    throw error;
  }

  async function close(): Promise<void> {
    await store?.close();
    await workers.then(
      (pool) => pool.close(),
      () => {},
    );
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    await server?.engine.close();
  }
}

interface DatasetPlace {
  /** `s3://...` or a directory, as in a job file. */
  readonly to: string;
  /** The dataset of the API's tables; `undefined`: the only one of single trades. */
  readonly trades: string | undefined;
  /** Datasets of jobs that drop there; some may have nothing sealed yet. */
  readonly datasets: readonly string[];
  readonly families: Families;
}

/** @throws Fault `USAGE`, `STORE_UNCLEAR`, `JOB_UNKNOWN`, `JOB_INVALID` (all usage), `STORE_MISSING` */
async function findDataset(
  { cwd, globals }: Pick<Cli, 'cwd' | 'globals'>,
  { job, fromStore, dataset }: StoreChoice,
): Promise<DatasetPlace> {
  if (fromStore === undefined && dataset !== undefined)
    throw usage(
      '--dataset chooses a dataset of --from-store LOCATION, which is missing',
      'Name the store too, or leave --dataset out.',
    );
  const named = { to: fromStore ?? '', trades: dataset, datasets: [], families: KNOWN_FAMILIES };
  const place: DatasetPlace = fromStore === undefined ? await readPlace(job, globals.jobs) : named;
  await assertDirectory(cwd, place.to, 'Run the job first, or name the store with --from-store LOCATION.');
  return place;
}

/** All datasets of the store that can be read. @throws Fault `DATASET_UNKNOWN`, `ARCHIVE_EMPTY` */
export async function listReadable(store: Store, { trades, datasets }: Omit<DatasetPlace, 'families'>) {
  const all = [...new Set([...(await listDatasets(store)), ...datasets])].sort();
  if (all.length === 0) {
    throw new Fault('ARCHIVE_EMPTY', `nothing is sealed in ${store.url}`, {
      hint: 'Run a job first, or check the location; `flowdrop status` shows what is sealed.',
    });
  }
  if (trades === undefined || all.includes(trades)) return all;
  const nearest = findNearest(trades, all);
  throw usage(
    `${store.url} has no dataset ${JSON.stringify(trades)}; it has ${all.join(', ')}`,
    nearest === undefined ? 'Name one of these with --dataset.' : `Did you mean --dataset ${nearest}?`,
    'DATASET_UNKNOWN',
  );
}

/** The store that all jobs share, or all jobs of single trades. @throws Fault `STORE_UNCLEAR` (usage) */
async function readPlace(reference: string | undefined, folder: string): Promise<DatasetPlace> {
  const files = reference === undefined ? await listJobFiles(folder) : [reference];
  const jobs = await Promise.all(files.map((file) => readJob(file, folder)));
  const ofTrades = jobs.filter(({ source: { kind } }) => kind === 'rows' || kind === 'table');
  const stores = [jobs, ofTrades].map((some) => [...new Set(some.map(({ drop }) => drop.to))]);
  const [to] = stores.find(({ length }) => length === 1) ?? [];
  if (to === undefined) {
    const choices = jobs.map(({ name, drop }) => `--job ${name} (${drop.to}/${drop.dataset})`).join(', ');
    throw usage(
      jobs.length === 0 ? `${folder} has no job` : `the jobs of ${folder} write to ${stores[0]?.length} stores`,
      choices ? `Choose one: ${choices}.` : 'Name a store: --from-store LOCATION.',
      'STORE_UNCLEAR',
    );
  }
  const there = jobs.filter(({ drop }) => drop.to === to);
  const [trades, ...others] = new Set(ofTrades.flatMap(({ drop }) => (drop.to === to ? drop.dataset : [])));
  return {
    to,
    trades: others.length === 0 ? trades : undefined,
    datasets: there.map(({ drop }) => drop.dataset),
    families: Object.assign({}, ...there.map(({ families }) => families)) as Families,
  };
}
