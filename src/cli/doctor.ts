/** `flowdrop doctor [JOB]`: tries everything that runs need, and says of each what was seen and what to do. */
import { EXIT_CODES } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import type { Finding } from '../run/doctor/finding.ts';
import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';
import { assertShareable } from './shared-schedule.ts';

export const registerDoctor: Register = (program, context, act) => {
  program
    .command('doctor')
    .description(
      'try everything that runs need: settings, key, clock, store rights, mail, drawing, disk, memory, engine',
    )
    .argument('[job]', 'a job file, or its name in the jobs folder; without it all of the folder')
    .addHelpText('after', EFFECTS)
    .action(async (job: string | undefined) => {
      await act((globals) => examine(context, globals, job));
    });
};

const EFFECTS = `
It sends one request to each API in test mode, logs in to the mail server without sending, and removes what it writes.
Exit code 0: a run can work; 1: something of the above would make it fail.`;

async function examine(cli: CliContext, globals: GlobalOptions, reference: string | undefined): ActionResult {
  const findings: Finding[] = [];
  for await (const found of examineAll(cli, globals, reference)) {
    findings.push(...found);
    // As they come: a silent server may keep the next one waiting.
    if (!globals.json) for (const finding of found) cli.terminal.out(cli.compose.redact(formatFinding(finding)));
  }
  const count = (status: Finding['status']) => findings.filter((finding) => finding.status === status).length;
  const failures = count('fail');
  if (globals.json) {
    const checks = findings.map(({ check, status, seen, next }) => ({ check, status, seen, next: next ?? null }));
    cli.terminal.out(`${cli.compose.redact(JSON.stringify({ ok: failures === 0, checks }, undefined, 2))}\n`);
  } else cli.terminal.out(`${findings.length} checks: ${count('ok')} ok, ${count('warn')} warn, ${failures} fail\n`);
  return failures === 0 ? undefined : EXIT_CODES.failed;
}

async function* examineAll(
  cli: CliContext,
  globals: GlobalOptions,
  reference: string | undefined,
): AsyncIterable<readonly Finding[]> {
  const { compose } = cli;
  const { stat } = await import('node:fs/promises');
  const { join } = await import('node:path');
  const { ok, tryCheck } = await import('../run/doctor/finding.ts');
  const { checkSecrecy, checkSettings } = await import('../run/doctor/settings.ts');
  const { checkDrawing, checkEngine, checkLimits, checkMail, checkStateDirectory } = await import(
    '../run/doctor/machine.ts'
  );
  const { readFileLimit, readMemoryBytes } = await import('../core/machine.ts');

  yield checkSettings(compose.reportSettings());
  const envFile = join(cli.cwd, '.env');
  yield checkSecrecy(envFile, (await stat(envFile).catch(() => undefined))?.mode);
  yield await tryCheck('calendar', async () => {
    const { closed, earlyClose, open } = await compose.readCalendar();
    const dates = closed.size + earlyClose.size + open.size;
    return dates === 0 ? [] : [ok('calendar', `${dates} dates of FLOWDROP_CALENDAR_FILE go before the rules`)];
  });
  const { jobs, found } = await readJobs(cli, globals, reference);
  yield found;
  // Without a job the key can be tried all the same, with the shipped one.
  const shipped = join(compose.packageDir, 'jobs', 'nightly-trades.yaml');
  const { readJob } = await import('../job/files.ts');
  for (const job of pickSources(jobs.length > 0 ? jobs : [await readJob(shipped, globals.jobs)]))
    yield await examineSource(cli, job);
  for (const job of jobs) {
    yield await tryCheck('redis', async () => {
      assertShareable(job, compose.redisUrl !== undefined);
      return [];
    });
  }
  yield await tryCheck('redis', async () => {
    const seen = await compose.checkRedis();
    return seen === undefined ? [] : [ok('redis', seen)];
  });
  for (const job of pickStores(jobs)) yield await examineStore(cli, job);
  yield await checkMail(() => compose.openMailer());
  yield await checkStateDirectory(compose.stateDir);
  yield checkLimits(readMemoryBytes(), readFileLimit());
  yield await checkDrawing();
  yield await checkEngine(() => compose.openEngine({ signal: cli.signal }));
}

async function readJobs(cli: CliContext, globals: GlobalOptions, reference: string | undefined) {
  const { assertDistinct, listJobFiles, readJob } = await import('../job/files.ts');
  const { ok, tryCheck } = await import('../run/doctor/finding.ts');
  const { readSourceSql } = await import('../run/job-sql.ts');
  const jobs: Job[] = [];
  const found = [
    ...(await tryCheck('jobs', async () => {
      const files = reference === undefined ? await listJobFiles(globals.jobs) : [reference];
      const results: Finding[] = [];
      for (const file of files) {
        const read = tryCheck('jobs', async () => {
          const job = await readJob(file, globals.jobs);
          await readSourceSql(cli.compose, job);
          jobs.push(job);
          return [];
        });
        results.push(...(await read));
      }
      assertDistinct(jobs);
      const names = jobs.map(({ name }) => name).join(', ');
      if (names !== '') results.unshift(ok('jobs', `read: ${names}`));
      return results;
    })),
  ];
  if (jobs.length > 0 || found.length > 0) return { jobs, found };
  const next = '`flowdrop init` writes one.';
  return { jobs, found: [{ check: 'jobs', status: 'warn', seen: `no job file is in ${globals.jobs}`, next } as const] };
}

/** One job of each API or table: they share key, clock and limits. */
function pickSources(jobs: readonly Job[]): readonly Job[] {
  const nameOf = ({ source }: Job) => (source.kind === 'table' ? `${source.api} ${source.table}` : source.api);
  return [...new Map(jobs.map((job) => [nameOf(job), job])).values()];
}

/** One job of each place and way to write there. */
function pickStores(jobs: readonly Job[]): readonly Job[] {
  return [...new Map(jobs.map((job) => [JSON.stringify([job.drop.to, job.drop.s3]), job])).values()];
}

async function examineSource(cli: CliContext, job: Job): Promise<readonly Finding[]> {
  const { openJobSource } = await import('../run/job-source.ts');
  const { closeSource } = await import('../export/job-source.ts');
  const { tryCheck } = await import('../run/doctor/finding.ts');
  const { checkSource } = await import('../run/doctor/source.ts');
  return await tryCheck(job.source.api, async () => {
    const { clock, clockRule } = cli.compose;
    // A calendar that cannot be read is a finding of its own.
    const calendar = await cli.compose.readCalendar().catch(() => undefined);
    const log = await cli.compose.openLog({ quiet: true });
    const { opened } = await openJobSource(cli.compose, job, log);
    try {
      return await checkSource(job.source.api, opened, { clock, clockRule, calendar, signal: cli.signal });
    } finally {
      await closeSource(opened);
    }
  });
}

async function examineStore({ compose, cwd, signal }: CliContext, { drop }: Job): Promise<readonly Finding[]> {
  const { tryCheck } = await import('../run/doctor/finding.ts');
  const { checkStore } = await import('../run/doctor/store.ts');
  const { makeTrialFolder } = await import('./doctor-folder.ts');
  return await tryCheck('store', async () => {
    const folder = await makeTrialFolder(cwd, drop.to);
    try {
      const store = await compose.openStore(drop.to, { objects: drop.s3 });
      try {
        const tryUpload = (key: string) => compose.tryUpload(drop.to, drop.s3, key, signal);
        return await checkStore({ name: 'store', store, tryUpload });
      } finally {
        await store.close();
      }
    } finally {
      await folder.remove();
    }
  });
}

const STATUS_WIDTH = 'warn'.length;
const CHECK_WIDTH = 'store: conditional put'.length;

/** What to do is below what was seen, so that either may be long. */
function formatFinding({ check, status, seen, next }: Finding): string {
  const indent = ' '.repeat(STATUS_WIDTH + CHECK_WIDTH + 4);
  const head = `${(status === 'ok' ? status : status.toUpperCase()).padEnd(STATUS_WIDTH)}  ${check.padEnd(CHECK_WIDTH)}  `;
  return `${head}${seen.replaceAll('\n', `\n${indent}`)}\n${next ? `${indent}-> ${next}\n` : ''}`;
}
