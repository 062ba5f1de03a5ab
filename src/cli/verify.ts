/** `flowdrop verify JOB`: re-hashes and re-reads the sealed drops and compares them with their manifests. */
import { rm } from 'node:fs/promises';
import { EXIT_CODES } from '../core/errors.ts';
import { formatCount } from '../core/units.ts';
import type { Engine } from '../engine/engine.ts';
import { closeSource } from '../export/job-source.ts';
import { compareWithSource } from '../export/recount-date.ts';
import type { Job } from '../job/job.ts';
import { readJob } from '../job/job-folder.ts';
import { auditTable } from '../ledger/iceberg/audit-table.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { listSealedDates } from '../ledger/sealed-dates.ts';
import { openJobSource } from '../run/open-source.ts';
import { type AuditDeps, auditDrop } from '../seal/audit.ts';
import { auditConditions, auditHistory, findForeignKeys, listLeftovers } from '../seal/audit-dataset.ts';
import { assertStateFolder, makeScratchFolder } from '../state/state-folder.ts';
import type { ActionResult, CommandCall } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';
import { assertDate } from './range.ts';
import { assertDirectory } from './store-directory.ts';

interface VerifyFlags {
  readonly date?: string | undefined;
  readonly deep?: boolean | undefined;
}

interface VerifyResult {
  /** `null` for the dataset as a whole: foreign objects, `condition.json`. */
  readonly date: string | null;
  readonly rows: number;
  readonly findings: readonly string[];
  /** Why the date was sealed as degraded, else null. */
  readonly degraded: string | null;
  /** The revision that is about to replace this one; its files may already be there. */
  readonly restating: number | null;
  /** Whether the source was also checked. */
  readonly recounted: boolean;
  /** For the dataset: objects under `_flowdrop/sealing/`, which are no damage. */
  readonly leftovers: readonly string[];
}

/** Fields of an ordinary result. */
const PLAIN = { degraded: null, restating: null, recounted: false, leftovers: [] } as const;

type VerifyCli = Pick<CliContext, 'cwd' | 'openers' | 'signal' | 'terminal'>;

export async function verify(
  cli: VerifyCli,
  { globals, argument, options }: CommandCall<string, VerifyFlags>,
): ActionResult {
  if (options.date !== undefined) assertDate('--date', options.date);
  const job = await readJob(argument, globals.jobs);
  await assertDirectory(cli.cwd, job.drop.to, 'Run the job first, or check `drop.to` in the job file.');
  const { openers, signal } = cli;
  await assertStateFolder(openers.stateDir);
  const store = await openers.openStore(job.drop.to, { objects: job.drop.s3 });
  const folder = await makeScratchFolder(openers.stateDir, openers.clock.now());
  const engine = await openers.openEngine({ signal });
  try {
    const { results, manifests } = await audit({ store, engine, folder, signal }, job, options.date);
    const recounted = options.deep ? await recount(cli, engine, job, results, manifests) : results;
    printResults(cli, globals, job, recounted);
    if (recounted.some(({ findings }) => findings.length > 0)) return EXIT_CODES.failed;
    return recounted.some(({ restating }) => restating !== null) ? EXIT_CODES.incomplete : undefined;
  } finally {
    await engine.close();
    await rm(folder, { recursive: true, force: true });
    await store.close();
  }
}

interface Audited {
  readonly results: readonly VerifyResult[];
  readonly manifests: ReadonlyMap<string, Manifest | undefined>;
}

async function audit(deps: AuditDeps, job: Job, only: string | undefined): Promise<Audited> {
  const { dataset } = job.drop;
  const dates = only === undefined ? await listSealedDates(deps.store, dataset) : [only];
  const results: VerifyResult[] = [];
  const manifests = new Map<string, Manifest | undefined>();
  for (const date of dates) {
    const { manifest, rows, findings, restating } = await auditDrop(deps, dataset, date);
    manifests.set(date, manifest);
    const history = manifest ? await auditHistory(deps, manifest) : [];
    const degraded = manifest?.condition === 'degraded' ? (manifest.degraded_reason ?? 'incomplete') : null;
    results.push({ ...PLAIN, date, rows, findings: [...findings, ...history], degraded, restating });
  }
  if (only === undefined) {
    const findings = [
      ...(await findForeignKeys(deps.store, dataset, dates)),
      ...(await auditConditions(deps.store, dataset, manifests)),
    ];
    const table = job.drop.table === null ? undefined : await auditTable(deps.store, dataset, manifests);
    findings.push(...(table?.findings ?? []));
    const behind = (table?.behind ?? []).map((what) => `${what}; the next run commits it`);
    const leftovers = [...(await listLeftovers(deps.store, dataset)), ...behind];
    const rows = results.reduce((sum, result) => sum + result.rows, 0);
    results.push({ ...PLAIN, date: null, rows, findings, leftovers });
  }
  return { results, manifests };
}

/** Also compares with the source, for the dates that are still complete there. */
async function recount(
  cli: VerifyCli,
  engine: Engine,
  job: Job,
  results: readonly VerifyResult[],
  manifests: Audited['manifests'],
): Promise<readonly VerifyResult[]> {
  if (job.source.kind === 'snapshots') {
    const { api } = job.source;
    cli.terminal.err(`--deep has no effect: \`api: ${api}\` cannot be recounted at the source.\n`);
    return results;
  }
  const { openers, signal } = cli;
  const { clock } = openers;
  const clockRule = openers.readClockRule();
  const { opened, limits } = await openJobSource(openers, job, await openers.openLog({ quiet: true }), engine);
  if (opened.kind === 'snapshots') return results;
  const recounted: VerifyResult[] = [];
  try {
    for (const result of results) {
      const manifest = result.date === null ? undefined : manifests.get(result.date);
      const found = manifest && (await compareWithSource({ limits, signal, clock, clockRule }, opened, manifest));
      recounted.push(found ? { ...result, recounted: true, findings: [...result.findings, ...found] } : result);
    }
  } finally {
    await closeSource(opened);
  }
  return recounted;
}

function printResults(
  { terminal }: VerifyCli,
  globals: GlobalOptions,
  job: Job,
  results: readonly VerifyResult[],
): void {
  if (globals.json) {
    terminal.out(`${JSON.stringify(results, undefined, 2)}\n`);
    return;
  }
  const dates = results.filter(({ date }) => date !== null);
  if (dates.length === 0) terminal.out('Nothing is sealed yet.\n');
  for (const result of results) {
    if (result.date !== null || result.findings.length > 0) terminal.out(`${describeResult(result, job)}\n`);
    for (const leftover of result.leftovers) terminal.out(`note  ${job.drop.dataset}  ${leftover}\n`);
  }
  if (dates.length > 0) terminal.out(`${summarise(results)}\n`);
}

function describeResult({ date, rows, findings, degraded, restating, recounted }: VerifyResult, job: Job): string {
  const what = date ?? job.drop.dataset;
  if (findings.length > 0) return `FAIL  ${what}  ${findings.join('; ')}`;
  if (restating !== null) {
    return `busy  ${what}  being replaced by revision ${restating}; if no run is active, \`flowdrop run ${job.name}\` finishes it`;
  }
  const counted = recounted ? ', same count at the source' : '';
  return `ok    ${what}  ${formatCount(rows)} rows${counted}${degraded === null ? '' : `; degraded: ${degraded}`}`;
}

/** `2 dates, 800 rows: nothing is wrong, 1 is degraded`. */
function summarise(results: readonly VerifyResult[]): string {
  const dates = results.filter(({ date }) => date !== null);
  const count = (isSo: (result: VerifyResult) => boolean) => results.filter(isSo).length;
  const parts: readonly (readonly [number, string])[] = [
    [count(({ findings }) => findings.length > 0), 'with findings'],
    [count(({ restating }) => restating !== null), 'being replaced'],
    [count(({ degraded }) => degraded !== null), 'degraded'],
    [count(({ recounted }) => recounted), 'recounted at the source'],
  ];
  const counts = parts.filter(([n]) => n > 0).map(([n, word]) => `${n} ${word}`);
  const rows = formatCount(dates.reduce((sum, result) => sum + result.rows, 0));
  const wrong = results.some(({ findings }) => findings.length > 0);
  const all = `${dates.length} ${dates.length === 1 ? 'date' : 'dates'}, ${rows} rows`;
  return `${all}: ${[...(wrong ? [] : ['nothing is wrong']), ...counts].join(', ')}`;
}
