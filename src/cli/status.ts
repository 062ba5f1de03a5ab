/**
 * `flowdrop status [JOB]`: conditions of the dates, gaps and when they expire, last and next runs. Asks the store only:
 * what it holds, and what its `condition.json` remembers, so that a worker with an empty disk knows gaps and losses too.
 */
import { isFault } from '../core/errors.ts';
import { formatCount } from '../core/units.ts';
import type { Job } from '../job/job.ts';
import type { Condition } from '../plan/dates.ts';
import { learntPath, stateOf } from '../run/state.ts';
import type { ConditionEntry } from '../seal/condition.ts';
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
  /** Of dates chosen by hand. */
  readonly last_backfill: string | null;
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
  const { computeConditions, expiresAt } = await import('../plan/dates.ts');
  const { expires, lookbackOf } = await import('../run/lookback.ts');
  const { readConditionDocument } = await import('../seal/condition.ts');
  const { listSealedDates } = await import('../seal/ledger.ts');
  const { loadLearnt } = await import('../run/learnt.ts');
  const { readRunResult } = await import('../run/result.ts');
  const { createTask } = await import('node-cron');
  const { compose } = cli;
  const state = stateOf(compose.stateDir, job.name);
  const last = await readRunResult(state.lastRun);
  const lastBackfill = await readRunResult(state.lastBackfill);
  const store = await compose.openStore(job.drop.to, job.drop.s3);
  try {
    const manifests = new Map<string, ManifestFacts>();
    for (const date of await listSealedDates(store, job.drop.dataset)) {
      manifests.set(date, await readManifestFacts(store, job.drop.dataset, date));
    }
    // The API's clock as the last run saw it; without one this machine's.
    const offsetMs = (await loadLearnt(...learntOf(cli, job), compose.clock.now())).clock_offset_ms;
    const lookback = lookbackOf(job.source, compose.clock.now() + offsetMs, await compose.readCalendar());
    const sealed = new Map([...manifests].map(([date, { condition }]) => [date, condition]));
    const { entries, fault } = await readConditionDocument(store, job.drop.dataset);
    if (fault) cli.terminal.err(`${job.name}: condition.json is not in shape, so it is left out: ${fault}\n`);
    // Every run writes the document, also one of chosen dates, so it is the newer of the two.
    const known = new Map<string, Condition>([
      ...Object.entries(last?.conditions ?? {}),
      ...[...entries.values()].map(({ date, condition }) => [date, condition] as const),
    ]);
    const empty = new Set([...known].flatMap(([date, condition]) => (condition === 'missing' ? [date] : [])));
    const firstKnown = [...sealed.keys(), ...known.keys()].sort()[0];
    const conditions = recallConditions(computeConditions({ sealed, empty, lookback }, firstKnown), sealed, entries);
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
          expires(job.source) && (condition === 'pending' || condition === 'missing')
            ? new Date(expiresAt(date)).toISOString()
            : null,
      })),
      last_run: last?.finished_at ?? null,
      last_backfill: lastBackfill?.finished_at ?? null,
      next_run: task?.getNextRuns(1)[0]?.toISOString() ?? null,
    };
  } finally {
    await store.close();
  }
}

/**
 * What the store remembers of dates that are not sealed: one that was lost, or without rows while it could be asked for,
 * stays so, and a date beyond this machine's clock is still told.
 */
function recallConditions(
  computed: ReadonlyMap<string, Condition>,
  sealed: ReadonlyMap<string, Condition>,
  entries: ReadonlyMap<string, ConditionEntry>,
): ReadonlyMap<string, Condition> {
  const conditions = new Map(computed);
  for (const [date, { condition }] of entries) {
    // Sealed says the manifest, not the document.
    if (sealed.has(date) || condition === 'available' || condition === 'degraded') continue;
    if (condition !== 'pending' || !conditions.has(date)) conditions.set(date, condition);
  }
  return new Map([...conditions].sort(([a], [b]) => (a < b ? -1 : 1)));
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

/** Path and address of what was learnt. Status works without the API's settings: then nothing was learnt of its clock. */
function learntOf({ compose }: CliContext, { source }: Job): readonly [path: string, url: string] {
  // A server's clock is asked for by every run.
  if (source.kind === 'table') return ['', ''];
  try {
    const url = compose.sourceUrl(source.api);
    return [learntPath(compose.stateDir, url, compose.keyFingerprint, source), url];
  } catch {
    return ['', ''];
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
  const backfill = status.last_backfill === null ? '' : `, last backfill ${status.last_backfill}`;
  // A backfill asks for its own dates only.
  const isPart = status.last_run === null && status.last_backfill !== null;
  return `${[
    `${status.job}: ${status.store}/${status.dataset}`,
    `last run ${status.last_run ?? 'never'}${backfill}, next ${status.next_run ?? 'by hand'}`,
    ...(isPart ? [`Dates before the first one here were not asked for yet: see \`flowdrop plan ${status.job}\`.`] : []),
    '',
    rows.length === 0
      ? `No date is known yet: run the job, or see \`flowdrop plan ${status.job}\`.`
      : formatTable(columns, rows),
  ].join('\n')}\n`;
}
