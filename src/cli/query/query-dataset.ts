/** Which dataset `flowdrop query` reads: the named one, or the only dataset of single trades among the jobs. */
import { Fault } from '../../core/errors.ts';
import type { Job } from '../../job/job.ts';
import { listJobFiles, readJob } from '../../job/job-folder.ts';
import { assertDirectory } from '../store-directory.ts';

export interface DatasetFlags {
  readonly job?: string | undefined;
  readonly fromStore?: string | undefined;
  readonly dataset?: string | undefined;
}

export interface DatasetPlace {
  /** `s3://...` or a directory, as in a job file. */
  readonly to: string;
  readonly dataset: string;
}

/** Same rule as for names in a job file: a name cannot contain a folder or a pattern. */
const DATASET = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

const STORE_HINT = 'Run the job first, or name the store with --from-store LOCATION --dataset NAME.';

/** @throws Fault `USAGE`, `DATASET_UNCLEAR`, `NO_TRADES`, `JOB_UNKNOWN`, `JOB_INVALID` (all usage), `STORE_MISSING` */
export async function findDataset(
  cwd: string,
  jobsFolder: string,
  { job, fromStore, dataset }: DatasetFlags,
): Promise<DatasetPlace> {
  if (job !== undefined && (fromStore !== undefined || dataset !== undefined))
    throw usage('--job names the store and the dataset: leave out --from-store and --dataset');
  if ((fromStore === undefined) !== (dataset === undefined)) throw usage('--from-store and --dataset go together');
  if (dataset !== undefined) assertDatasetName(dataset, 'query');
  const place =
    fromStore !== undefined && dataset !== undefined ? { to: fromStore, dataset } : await readPlace(job, jobsFolder);
  await assertDirectory(cwd, place.to, STORE_HINT);
  return place;
}

/** @param command whose flag it is @throws Fault `USAGE` */
export function assertDatasetName(dataset: string, command: string): void {
  if (DATASET.test(dataset)) return;
  throw usage(`--dataset is ${JSON.stringify(dataset)}; allowed are letters, digits, . _ and -`, command);
}

async function readPlace(reference: string | undefined, folder: string): Promise<DatasetPlace> {
  if (reference !== undefined) {
    const { name, drop, source } = await readJob(reference, folder);
    if (!hasTrades({ source })) {
      throw new Fault('NO_TRADES', `job ${name} exports ${describeKind(source)}, query needs single trades`, {
        kind: 'usage',
        hint: 'Name a job of single trades with --job. Other drops are Parquet files that any Parquet reader opens.',
      });
    }
    return { to: drop.to, dataset: drop.dataset };
  }
  const jobs: Job[] = [];
  for (const file of await listJobFiles(folder)) jobs.push(await readJob(file, folder));
  const trades = jobs.filter(hasTrades);
  const places = new Map(trades.map(({ name, drop }) => [`${drop.to} ${drop.dataset}`, { name, drop }]));
  const [only, ...others] = [...places.values()];
  if (only && others.length === 0) return { to: only.drop.to, dataset: only.drop.dataset };
  const known = [...places.values()].map(({ name, drop }) => `--job ${name} (${drop.to}/${drop.dataset})`).join(', ');
  throw new Fault(
    'DATASET_UNCLEAR',
    `${folder} has ${places.size === 0 ? 'no job' : `${places.size} datasets`} of single trades`,
    { kind: 'usage', hint: known ? `Choose one: ${known}.` : 'Name a store: --from-store LOCATION --dataset NAME.' },
  );
}

function hasTrades({ source }: Pick<Job, 'source'>): boolean {
  return source.kind === 'rows' || source.kind === 'table';
}

function describeKind({ kind }: Job['source']): string {
  return kind === 'aggregate' ? 'groups of trades' : 'snapshots';
}

function usage(message: string, command = 'query'): Fault {
  return new Fault('USAGE', message, { kind: 'usage', hint: `See \`flowdrop ${command} --help\`.` });
}
