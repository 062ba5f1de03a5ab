/**
 * Which store `flowdrop query` reads, and which dataset stands behind the API's tables. Every dataset of the store can
 * be read by its name, so a store is all that must be known: the named one, or the one that the jobs share.
 */
import { Fault } from '../../core/errors.ts';
import { findNearest } from '../../core/nearest.ts';
import type { Job } from '../../job/job.ts';
import { listJobFiles, readJob } from '../../job/job-folder.ts';
import { listDatasets } from '../../ledger/ledger.ts';
import type { Store } from '../../store/store.ts';
import { assertDirectory, usage } from '../arguments.ts';
import type { Call } from '../commands.ts';

export interface DatasetPlace {
  /** `s3://...` or a directory, as in a job file. */
  readonly to: string;
  /** The dataset of the API's tables; `undefined`: the only one of single trades. */
  readonly trades: string | undefined;
  /** Datasets of jobs that drop there; some may have nothing sealed yet. */
  readonly datasets: readonly string[];
}

const HINT = 'See `flowdrop query --help`.';
const STORE_HINT = 'Run the job first, or name the store with --from-store LOCATION.';

/** @throws Fault `USAGE`, `STORE_UNCLEAR`, `JOB_UNKNOWN`, `JOB_INVALID` (all usage), `STORE_MISSING` */
export async function findDataset(
  cwd: string,
  jobsFolder: string,
  { job, fromStore, dataset }: Call<'query'>['options'],
): Promise<DatasetPlace> {
  if (job !== undefined && (fromStore !== undefined || dataset !== undefined))
    throw usage('--job names the store and the dataset: leave out --from-store and --dataset', HINT);
  if (fromStore === undefined && dataset !== undefined)
    throw usage('--dataset chooses a dataset of --from-store LOCATION, which is missing', HINT);
  const place =
    fromStore === undefined ? await readPlace(job, jobsFolder) : { to: fromStore, trades: dataset, datasets: [] };
  await assertDirectory(cwd, place.to, STORE_HINT);
  return place;
}

/** All datasets of the store that can be read. @throws Fault `DATASET_UNKNOWN`, `ARCHIVE_EMPTY` */
export async function listReadable(store: Store, { trades, datasets }: DatasetPlace): Promise<readonly string[]> {
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

async function readPlace(reference: string | undefined, folder: string): Promise<DatasetPlace> {
  if (reference !== undefined) {
    const { drop, source } = await readJob(reference, folder);
    const trades = hasTrades({ source }) ? drop.dataset : undefined;
    return { to: drop.to, trades, datasets: [drop.dataset] };
  }
  const jobs: Job[] = [];
  for (const file of await listJobFiles(folder)) jobs.push(await readJob(file, folder));
  const to = findStore(jobs, folder);
  const trades = new Set(jobs.filter((job) => job.drop.to === to && hasTrades(job)).map(({ drop }) => drop.dataset));
  return {
    to,
    trades: trades.size === 1 ? [...trades][0] : undefined,
    datasets: jobs.filter(({ drop }) => drop.to === to).map(({ drop }) => drop.dataset),
  };
}

/** The store that all jobs share, or all jobs of single trades. @throws Fault `STORE_UNCLEAR` (usage) */
function findStore(jobs: readonly Job[], folder: string): string {
  const all = new Set(jobs.map(({ drop }) => drop.to));
  const stores = all.size === 1 ? all : new Set(jobs.filter(hasTrades).map(({ drop }) => drop.to));
  const [only, ...others] = stores;
  if (only !== undefined && others.length === 0) return only;
  const choices = jobs.map(({ name, drop }) => `--job ${name} (${drop.to}/${drop.dataset})`).join(', ');
  throw usage(
    jobs.length === 0 ? `${folder} has no job` : `the jobs of ${folder} write to ${all.size} stores`,
    choices ? `Choose one: ${choices}.` : 'Name a store: --from-store LOCATION.',
    'STORE_UNCLEAR',
  );
}

function hasTrades({ source }: Pick<Job, 'source'>): boolean {
  return source.kind === 'rows' || source.kind === 'table';
}
