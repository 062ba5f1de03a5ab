/**
 * `flowdrop verify JOB`: re-hashes and re-reads the sealed drops, compares them with their manifests, and says with each
 * finding what to do next. Changes nothing without `--repair`.
 */
import { EXIT_CODES } from '../core/errors.ts';
import { countOf } from '../core/units.ts';
import { openDates } from '../export/export.ts';
import { type AuditedDate, type Repairs, repairFromSource, repairInStore } from '../export/repair.ts';
import type { Job } from '../job/job.ts';
import { readJob } from '../job/job-folder.ts';
import { auditTable } from '../ledger/iceberg/table.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { OpenedSource } from '../run/open-source.ts';
import { recordRun } from '../run/run-recorder.ts';
import { type AuditDeps, auditDrop } from '../seal/audit.ts';
import { auditConditions, auditHistory, findForeignKeys, listLeftovers } from '../seal/audit-dataset.ts';
import { assertStateFolder, withScratchFolder } from '../state/job-state.ts';
import { assertDate, assertDirectory, type Call, type Cli, withLedger, withSource } from './context.ts';

/** What is not found in most dates. */
const ORDINARY = {
  /** Why the date was sealed as degraded. */
  degraded: null as string | null,
  /** The revision that is about to replace this one; its files may already be there. */
  restating: null as number | null,
  /** Whether the source was also checked. */
  recounted: false,
  /** For the dataset: objects under `_flowdrop/sealing/`, which are no damage. */
  leftovers: [] as readonly string[],
  /** Replaced revisions that the ledger records as lost, in words; they are no findings. */
  lost: [] as readonly string[],
  /** What `--repair` did. */
  repaired: [] as readonly string[],
  /** What to do about the findings, mostly a command to type. */
  next: null as string | null,
};

type VerifyResult = Readonly<typeof ORDINARY> & {
  /** `null` for the dataset as a whole: foreign objects, `condition.json`. */
  readonly date: string | null;
  readonly rows: number;
  readonly findings: readonly string[];
};

const FOREIGN_STEP = 'move away the objects that do not belong there';

const isWrong = ({ findings }: VerifyResult) => findings.length > 0;
const sumRows = (results: readonly VerifyResult[]) => results.reduce((sum, { rows }) => sum + rows, 0);

export async function verify(cli: Cli, { argument, options }: Call<'verify'>) {
  if (options.date !== undefined) assertDate('--date', options.date);
  const job = await readJob(argument, cli.globals.jobs);
  await assertDirectory(cli.cwd, job.drop.to);
  await assertStateFolder(cli.openers.stateDir);
  const results = await recordRun(
    cli.env,
    job,
    'verify',
    () => verifyDrops(cli, job, options),
    (found) => ({ outcome: found.some(isWrong) ? 'failed' : 'done' }),
  );
  cli.print(results, describeResults(results, job));
  if (results.some(isWrong)) return EXIT_CODES.failed;
  return results.some(({ restating }) => restating !== null) ? EXIT_CODES.incomplete : undefined;
}

async function verifyDrops(cli: Cli, job: Job, { date, deep, repair }: Call<'verify'>['options']) {
  const repairs: Repairs = { done: new Map(), refused: new Map() };
  if (repair) {
    const found = await withAudit(cli, job, async (deps) => {
      const { dates, wrongConditions } = await audit(deps, job, date);
      const left = await repairInStore(deps, job, dates, repairs, cli.openers.clock.now());
      return { left, isOutdated: wrongConditions || repairs.done.size > 0 };
    });
    if (found.left.length > 0 || found.isOutdated) await repairFromSource(cli.env, job, found.left, repairs);
  }
  return await withAudit(cli, job, async (deps) => {
    const audited = await audit(deps, job, date);
    if (deep) await recount(cli, deps, job, audited);
    return audited.results.map((result) => withNextStep(result, job, audited.dates, repairs));
  });
}

/** Store, engine and a folder for the time of `action`: a repair needs an engine of its own in between. */
async function withAudit<Result>({ openers, signal }: Cli, job: Job, action: (deps: AuditDeps) => Promise<Result>) {
  const withFolder = (ledger: Ledger) =>
    withScratchFolder(openers.stateDir, openers.clock.now(), async (folder) => {
      const engine = await openers.openEngine({ signal });
      try {
        return await action({ ledger, engine, calendar: await openers.readCalendar(), folder, signal });
      } finally {
        await engine.close();
      }
    });
  return await withLedger(openers, job, withFolder);
}

type Audited = Awaited<ReturnType<typeof audit>>;

async function audit(deps: AuditDeps, { name, drop }: Job, only: string | undefined) {
  const { ledger } = deps;
  const dates = only === undefined ? await ledger.dates() : [only];
  const results: VerifyResult[] = [];
  const audited = new Map<string, AuditedDate>();
  for (const date of dates) {
    const { manifest, rows, findings, isDamaged, restating } = await auditDrop(deps, date);
    const history = manifest && (await auditHistory(deps, manifest));
    audited.set(date, { manifest, isDamaged, unrecorded: history?.unrecorded ?? new Map() });
    const degraded = manifest?.condition === 'degraded' ? (manifest.degraded_reason ?? 'incomplete') : null;
    const all = [...findings, ...(history?.findings ?? [])];
    results.push({ ...ORDINARY, date, rows, findings: all, degraded, restating, lost: history?.lost ?? [] });
  }
  if (only !== undefined) return { results, dates: audited, wrongConditions: false };
  const manifests = new Map([...audited].map(([date, { manifest }]) => [date, manifest]));
  const conditions = await auditConditions(ledger, manifests);
  const foreign = await findForeignKeys(ledger, dates);
  const table = drop.table === null ? { behind: [], findings: [] } : await auditTable(ledger, manifests);
  const behind = table.behind.map((what) => `${what}; the next run commits it`);
  const leftovers = [...(await listLeftovers(ledger)), ...behind];
  const rows = sumRows(results);
  const findings = [...foreign, ...conditions, ...table.findings];
  const steps = [
    foreign.length > 0 && FOREIGN_STEP,
    conditions.length > 0 && `flowdrop run ${name}`,
    table.findings.length > 0 && `flowdrop iceberg rebuild ${name}`,
  ].filter((step) => step !== false);
  results.push({ ...ORDINARY, date: null, rows, findings, leftovers, next: steps.join('; ') || null });
  return { results, dates: audited, /** `condition.json` differs. */ wrongConditions: conditions.length > 0 };
}

/** Adds what was repaired, and what to do about the findings that are left. */
function withNextStep(result: VerifyResult, { name }: Job, dates: Audited['dates'], { done, refused }: Repairs) {
  const { date, recounted } = result;
  if (date === null) return result;
  const { manifest, isDamaged, unrecorded } = dates.get(date) ?? {};
  const reason = refused.get(date);
  const range = `--from ${date} --to ${date}`;
  let next = FOREIGN_STEP;
  if (recounted) next = `flowdrop backfill ${name} --all ${range}`;
  if (manifest === undefined) next = `flowdrop backfill ${name} ${range}`;
  if (isDamaged || unrecorded?.size) next = `flowdrop verify ${name} --repair`;
  if (reason) next = `not repaired: ${reason}. Restore the objects from a backup, or an earlier version of them`;
  return { ...result, repaired: done.get(date) ?? [], next: isWrong(result) ? next : null };
}

/** Also compares with the source, for the dates that are still complete there. */
async function recount(cli: Cli, deps: AuditDeps, job: Job, { results, dates }: Audited): Promise<void> {
  if (job.source.kind === 'snapshots') {
    cli.terminal.err(`--deep has no effect: \`api: ${job.source.api}\` cannot be recounted at the source.\n`);
    return;
  }
  const compareAll = async (opened: OpenedSource) => {
    const source = openDates(opened);
    for (const [index, result] of results.entries()) {
      const manifest = dates.get(result.date ?? '')?.manifest;
      const found = manifest && (await source.compare?.(manifest, deps));
      if (found) results[index] = { ...result, recounted: true, findings: [...result.findings, ...found] };
    }
  };
  await withSource(cli, job, compareAll, { engine: deps.engine });
}

function describeResults(results: readonly VerifyResult[], job: Job): readonly string[] {
  const lines = results.flatMap((result) => {
    const what = result.date ?? job.drop.dataset;
    const notes = [...result.lost, ...result.leftovers].map((note) => `note  ${what}  ${note}`);
    return result.date !== null || isWrong(result) ? [describeResult(result, what, job), ...notes] : notes;
  });
  const isSealed = results.some(({ date }) => date !== null);
  return isSealed ? [...lines, sumUp(results)] : ['Nothing is sealed yet.', ...lines];
}

function describeResult(result: VerifyResult, what: string, job: Job): string {
  const { rows, findings, degraded, restating, recounted, repaired, next } = result;
  if (isWrong(result)) return `FAIL  ${what}  ${findings.join('; ')}${next === null ? '' : `\n  -> ${next}`}`;
  if (restating !== null) {
    return `busy  ${what}  being replaced by revision ${restating}; if no run is active, \`flowdrop run ${job.name}\` finishes it`;
  }
  const counted = recounted ? ', same count at the source' : '';
  const done = repaired.length === 0 ? '' : `; repaired: ${repaired.join(', ')}`;
  return `ok    ${what}  ${countOf(rows, 'row')}${counted}${degraded === null ? '' : `; degraded: ${degraded}`}${done}`;
}

/** `2 dates, 800 rows: nothing is wrong, 1 is degraded`. */
function sumUp(results: readonly VerifyResult[]): string {
  const dates = results.filter(({ date }) => date !== null);
  const counts = Object.entries({
    'with findings': results.filter(isWrong),
    'being replaced': results.filter(({ restating }) => restating !== null),
    degraded: results.filter(({ degraded }) => degraded !== null),
    'recounted at the source': results.filter(({ recounted }) => recounted),
    repaired: results.filter(({ repaired }) => repaired.length > 0),
    'with a lost revision': results.filter(({ lost }) => lost.length > 0),
  }).flatMap(([word, { length }]) => (length > 0 ? [`${length} ${word}`] : []));
  if (!results.some(isWrong)) counts.unshift('nothing is wrong');
  return `${countOf(dates.length, 'date')}, ${countOf(sumRows(dates), 'row')}: ${counts.join(', ')}`;
}
