/** `flowdrop verify JOB`: re-hashes and re-reads the sealed drops and compares them with their manifests. */
import { EXIT_CODES } from '../core/errors.ts';
import { formatCount } from '../core/units.ts';
import type { Job } from '../job/job.ts';
import type { AuditResult } from '../seal/audit.ts';
import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';

interface VerifyOptions {
  readonly date?: string;
  readonly deep?: boolean;
}

export const registerVerify: Register = (program, context, act) => {
  program
    .command('verify')
    .description('re-hash and re-read sealed drops and compare them with their manifests')
    .argument('<job>', 'job file, or its name in the jobs folder')
    .option('--date <date>', 'only this trading date; default: every sealed one')
    .option('--deep', 'also recount the dates inside the lookback at the source')
    .action(async (job: string, options: VerifyOptions) => {
      await act((globals) => verify(context, globals, job, options));
    });
};

async function verify(
  cli: CliContext,
  globals: GlobalOptions,
  reference: string,
  options: VerifyOptions,
): ActionResult {
  const { mkdir, mkdtemp, rm } = await import('node:fs/promises');
  const { join } = await import('node:path');
  const { readJob } = await import('../job/files.ts');
  const { auditDrop } = await import('../seal/audit.ts');
  const { listSealedDates } = await import('../seal/ledger.ts');
  const { assertDate } = await import('./range.ts');
  if (options.date !== undefined) assertDate('--date', options.date);
  const job = await readJob(reference, globals.jobs);
  const store = await cli.compose.openStore(job.drop.to);
  await mkdir(cli.compose.stateDir, { recursive: true });
  const folder = await mkdtemp(join(cli.compose.stateDir, 'verify-'));
  try {
    const dates = options.date ? [options.date] : await listSealedDates(store, job.drop.dataset);
    const results: AuditResult[] = [];
    for (const date of dates) {
      results.push(await auditDrop(store, job.drop.dataset, date, join(folder, `${date}.parquet`), cli.signal));
    }
    const recounted = options.deep ? await recount(cli, job, results) : results;
    printResults(cli, globals, recounted);
    return recounted.every(({ findings }) => findings.length === 0) ? undefined : EXIT_CODES.failed;
  } finally {
    await rm(folder, { recursive: true, force: true });
    await store.close();
  }
}

/** Adds what the source counts now for the dates that are still whole inside the lookback. */
async function recount(cli: CliContext, job: Job, results: readonly AuditResult[]): Promise<readonly AuditResult[]> {
  const { probeRows } = await import('../run/probe.ts');
  const { openJobSource } = await import('./source.ts');
  const { sumCounts } = await import('../plan/counts.ts');
  const { computeLookback } = await import('../plan/dates.ts');
  const { compose, signal } = cli;
  const log = await compose.openLog({ quiet: true });
  const { source, learnt } = await openJobSource(cli, job, log);
  if (job.source.kind !== 'rows') return results;
  const { firstWhole } = computeLookback(source.serverNow());
  const inside = results.filter(({ date }) => date >= firstWhole).map(({ date }) => date);
  const counts = inside.length > 0 ? await probeRows({ source, learnt, signal }, job, inside) : new Map();
  return results.map((result) => {
    if (!inside.includes(result.date)) return result;
    const { ids } = sumCounts(counts.get(result.date) ?? []);
    if (ids === result.rows) return result;
    return { ...result, findings: [...result.findings, `the source now has ${ids} rows, the drop ${result.rows}`] };
  });
}

function printResults(cli: CliContext, globals: GlobalOptions, results: readonly AuditResult[]): void {
  if (globals.json) {
    cli.terminal.out(`${JSON.stringify(results, undefined, 2)}\n`);
    return;
  }
  if (results.length === 0) cli.terminal.out('Nothing is sealed yet.\n');
  for (const { date, rows, findings } of results) {
    cli.terminal.out(
      findings.length === 0 ? `ok    ${date}  ${formatCount(rows)} rows\n` : `FAIL  ${date}  ${findings.join('; ')}\n`,
    );
  }
}
