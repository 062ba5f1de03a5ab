/** `flowdrop status [JOB]`: conditions of the dates, gaps and when they expire, last and next runs. Asks the store only. */
import { isFault } from '../core/errors.ts';
import { formatCount } from '../core/units.ts';
import type { Job } from '../job/job.ts';
import type { Condition } from '../plan/dates.ts';
import type { Store } from '../store/store.ts';
import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';
import { formatTable } from './table.ts';

export const registerStatus: Register = (program, context, act) => {
  program
    .command('status')
    .description('show what is sealed, what is missing and when it expires, last and next runs')
    .argument('[job]', 'job file, or its name in the jobs folder; default: all')
    .action(async (job: string | undefined) => {
      await act((globals) => status(context, globals, job));
    });
};

interface DateStatus {
  readonly date: string;
  readonly condition: Condition;
  readonly rows: number | null;
  readonly revision: number | null;
  readonly begins_to_expire: string | null;
}

interface JobStatus {
  readonly job: string;
  readonly dataset: string;
  readonly store: string;
  readonly dates: readonly DateStatus[];
  readonly last_run: string | null;
  readonly next_run: string | null;
}

async function status(cli: CliContext, globals: GlobalOptions, reference: string | undefined): ActionResult {
  const { listJobFiles, readJob } = await import('../job/files.ts');
  const references = reference === undefined ? await listJobFiles(globals.jobs) : [reference];
  const statuses: JobStatus[] = [];
  for (const each of references) statuses.push(await readStatus(cli, await readJob(each, globals.jobs)));
  if (globals.json) cli.terminal.out(`${JSON.stringify(statuses, undefined, 2)}\n`);
  else cli.terminal.out(`${statuses.map(describeStatus).join('\n')}`);
  return undefined;
}

async function readStatus(cli: CliContext, job: Job): Promise<JobStatus> {
  const { computeConditions, computeLookback, expiresAt } = await import('../plan/dates.ts');
  const { listSealedDates } = await import('../seal/ledger.ts');
  const { loadLearnt } = await import('../run/learnt.ts');
  const { readRunResult } = await import('../run/result.ts');
  const { stateOf } = await import('../run/state.ts');
  const { createTask } = await import('node-cron');
  const { compose } = cli;
  const state = stateOf(compose.stateDir, job.name);
  const last = await readRunResult(state.lastRun);
  const store = await compose.openStore(job.drop.to);
  try {
    const manifests = new Map<string, ManifestFacts>();
    for (const date of await listSealedDates(store, job.drop.dataset)) {
      manifests.set(date, await readManifestFacts(store, job.drop.dataset, date));
    }
    // The API's clock as the last run saw it; without one this machine's.
    const offsetMs = (await loadLearnt(state.learnt, learntUrl(cli, job), compose.clock.now())).clock_offset_ms;
    const lookback = computeLookback(compose.clock.now() + offsetMs);
    const sealed = new Map([...manifests].map(([date, { condition }]) => [date, condition]));
    const empty = new Set(
      Object.entries(last?.conditions ?? {}).flatMap(([date, condition]) => (condition === 'missing' ? [date] : [])),
    );
    const firstKnown = [...sealed.keys(), ...Object.keys(last?.conditions ?? {})].sort()[0];
    const conditions = computeConditions({ sealed, empty, lookback }, firstKnown);
    const task = job.schedule && createTask(job.schedule.cron, () => undefined, { timezone: job.schedule.timezone });
    return {
      job: job.name,
      dataset: job.drop.dataset,
      store: store.url,
      dates: [...conditions].map(([date, condition]) => ({
        date,
        condition,
        rows: manifests.get(date)?.rows ?? null,
        revision: manifests.get(date)?.revision ?? null,
        begins_to_expire:
          condition === 'pending' || condition === 'missing' ? new Date(expiresAt(date)).toISOString() : null,
      })),
      last_run: last?.finished_at ?? null,
      next_run: task?.getNextRuns(1)[0]?.toISOString() ?? null,
    };
  } finally {
    await store.close();
  }
}

interface ManifestFacts {
  readonly condition: 'available' | 'degraded';
  readonly rows: number | null;
  readonly revision: number | null;
}

/** A damaged manifest makes its date degraded: `verify` says what is wrong with it. */
async function readManifestFacts(store: Store, dataset: string, date: string): Promise<ManifestFacts> {
  const { readManifest } = await import('../seal/ledger.ts');
  const unknown: ManifestFacts = { condition: 'degraded', rows: null, revision: null };
  try {
    return (await readManifest(store, dataset, date)) ?? unknown;
  } catch (error) {
    if (!isFault(error) || error.code !== 'MANIFEST_INVALID') throw error;
    return unknown;
  }
}

/** Status works without the API's settings: then nothing was learnt of its clock. */
function learntUrl(cli: CliContext, job: Job): string {
  try {
    return cli.compose.sourceUrl(job.source.api);
  } catch {
    return '';
  }
}

function describeStatus(status: JobStatus): string {
  const columns = [
    { title: 'date' },
    { title: 'condition' },
    { title: 'rows', align: 'right' as const },
    { title: 'begins to expire (UTC)' },
  ];
  const rows = status.dates.map((date) => [
    date.date,
    date.condition,
    date.rows === null ? '' : formatCount(date.rows),
    date.begins_to_expire ?? '',
  ]);
  return `${[
    `${status.job}: ${status.store}/${status.dataset}`,
    `last run ${status.last_run ?? 'never'}, next ${status.next_run ?? 'by hand'}`,
    '',
    rows.length === 0 ? 'Nothing is sealed yet.' : formatTable(columns, rows),
  ].join('\n')}\n`;
}
