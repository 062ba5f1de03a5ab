/** `flowdrop doctor [JOB]`: tries everything that a run needs, and prints for each check the finding and what to do. */
import { stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { EXIT_CODES } from '../../core/errors.ts';
import { readFileLimit, readMemoryBytes } from '../../core/machine.ts';
import type { Job } from '../../job/job.ts';
import { assertDistinct, listJobFiles, readJob } from '../../job/job-folder.ts';
import { readSourceSql } from '../../run/job-sql.ts';
import { closeSource, openJobSource } from '../../run/open-source.ts';
import { DOCTOR_PREFIX, parseLocation } from '../../store/object-key.ts';
import type { ActionResult } from '../command.ts';
import type { Call } from '../commands.ts';
import type { CliContext, GlobalOptions } from '../context.ts';
import { assertShareable } from '../shared-schedule.ts';
import { hangText } from '../terminal/text-width.ts';
import {
  checkDrawing,
  checkEngine,
  checkLimits,
  checkMail,
  checkSecrecy,
  checkSettings,
  checkStateDirectory,
  removeEmptyFolders,
} from './check-machine.ts';
import { checkRoom, estimateNight, type NightNeed, OUTBOX_NIGHT_BYTES, type WrittenPlace } from './check-room.ts';
import { checkSource } from './check-source.ts';
import { checkStore } from './check-store.ts';
import { type Finding, ok, tryCheck, warn } from './finding.ts';

type DoctorCli = Pick<CliContext, 'cwd' | 'openers' | 'signal' | 'terminal'>;

export async function doctor(cli: DoctorCli, { globals, argument }: Call<'doctor'>): ActionResult {
  const findings: Finding[] = [];
  for await (const found of examineAll(cli, globals, argument)) {
    findings.push(...found);
    // Printed at once: a silent server may delay the next one.
    if (!globals.json)
      for (const finding of found)
        cli.terminal.out(cli.openers.redact(formatFinding(finding, cli.terminal.columns.out)));
  }
  const count = (status: Finding['status']) => findings.filter((finding) => finding.status === status).length;
  const failures = count('fail');
  if (globals.json) {
    const checks = findings.map(({ check, status, seen, next }) => ({ check, status, seen, next: next ?? null }));
    cli.terminal.out(`${cli.openers.redact(JSON.stringify({ ok: failures === 0, checks }, undefined, 2))}\n`);
  } else cli.terminal.out(`${findings.length} checks: ${count('ok')} ok, ${count('warn')} warn, ${failures} fail\n`);
  return failures === 0 ? undefined : EXIT_CODES.failed;
}

async function* examineAll(
  cli: DoctorCli,
  globals: GlobalOptions,
  reference: string | undefined,
): AsyncIterable<readonly Finding[]> {
  const { openers } = cli;
  yield checkSettings(openers.reportSettings());
  const envFile = join(cli.cwd, '.env');
  yield checkSecrecy(envFile, (await stat(envFile).catch(() => undefined))?.mode);
  yield await tryCheck('calendar', async () => {
    const { closed, earlyClose, open } = await openers.readCalendar();
    const dates = closed.size + earlyClose.size + open.size;
    return dates === 0 ? undefined : `${dates} calendar exceptions from FLOWDROP_CALENDAR_FILE`;
  });
  const { jobs, found } = await readJobs(cli, globals, reference);
  yield found;
  // Without a job, the shipped one still tests the key.
  for (const job of pickSources(jobs.length > 0 ? jobs : [await readJob(openers.shippedJob, globals.jobs)]))
    yield await examineSource(cli, job);
  for (const job of jobs) {
    yield await tryCheck('redis', async () => {
      assertShareable(job, openers.readRedisUrl() !== undefined);
      return undefined;
    });
  }
  yield await tryCheck('redis', () => openers.checkRedis());
  for (const job of pickStores(jobs)) yield await examineStore(cli, job);
  for (const job of jobs) yield await examineCatalog(cli, job);
  yield await checkMail(
    () => openers.openMailer(),
    () => countUnreached(cli, jobs),
  );
  yield await checkStateDirectory(openers.stateDir);
  yield await examineRoom(cli, jobs);
  yield checkLimits(readMemoryBytes(), readFileLimit());
  yield await checkDrawing();
  yield await checkEngine(() => openers.openEngine({ signal: cli.signal }));
}

async function readJobs(cli: DoctorCli, globals: GlobalOptions, reference: string | undefined) {
  const jobs: Job[] = [];
  const found = await tryCheck('jobs', async () => {
    const files = reference === undefined ? await listJobFiles(globals.jobs) : [reference];
    const results: Finding[] = [];
    for (const file of files) {
      const faults = await tryCheck('jobs', async () => {
        const job = await readJob(file, globals.jobs);
        await readSourceSql(cli.openers, job);
        jobs.push(job);
        return undefined;
      });
      results.push(...faults);
    }
    assertDistinct(jobs);
    if (jobs.length > 0) results.unshift(ok('jobs', `read: ${jobs.map(({ name }) => name).join(', ')}`));
    return results;
  });
  if (jobs.length > 0 || found.length > 0) return { jobs, found };
  return { jobs, found: [warn('jobs', `no job file in ${globals.jobs}`, '`flowdrop init` writes one.')] };
}

/** One job per API or table: jobs of the same one share key, clock and limits. */
function pickSources(jobs: readonly Job[]): readonly Job[] {
  const nameOf = ({ source }: Job) => (source.kind === 'table' ? `${source.api} ${source.table}` : source.api);
  return [...new Map(jobs.map((job) => [nameOf(job), job])).values()];
}

/** One job per place and way to write there. */
function pickStores(jobs: readonly Job[]): readonly Job[] {
  return [...new Map(jobs.map((job) => [JSON.stringify([job.drop.to, job.drop.s3]), job])).values()];
}

async function examineSource({ openers, signal }: DoctorCli, job: Job): Promise<readonly Finding[]> {
  return await tryCheck(job.source.api, async () => {
    // An unreadable calendar has its own finding.
    const calendar = await openers.readCalendar().catch(() => undefined);
    const log = await openers.openLog({ quiet: true });
    const opened = await openJobSource(openers, job, { log, calendar, signal });
    try {
      return await checkSource(job.source.api, opened);
    } finally {
      await closeSource(opened);
    }
  });
}

async function examineStore({ openers, cwd, signal }: DoctorCli, { drop }: Job) {
  return await tryCheck('store', async () => {
    const removeFolders = await noteFolders(cwd, drop.to);
    try {
      const store = await openers.openStore(drop.to, { objects: drop.s3 });
      try {
        const tryUpload = (key: string) => openers.tryUpload(drop.to, drop.s3, key, signal);
        return await checkStore({ name: 'store', store, tryUpload });
      } finally {
        await store.close();
      }
    } finally {
      await removeFolders();
    }
  });
}

/**
 * Testing a store in a directory creates folders. Call this before the store is opened.
 * @returns removes the folders that are empty and did not exist before @throws Fault `LOCATION_INVALID`
 */
async function noteFolders(cwd: string, to: string): Promise<() => Promise<void>> {
  const location = parseLocation(to, cwd);
  if (location.kind === 's3') return async () => {};
  let there = location.path;
  while (there !== dirname(there) && (await stat(there).catch(() => undefined)) === undefined) there = dirname(there);
  return () => removeEmptyFolders(join(location.path, DOCTOR_PREFIX), there);
}

/** Addresses that get nothing, because mail goes to the outbox. Those of the shipped jobs are examples. */
function countUnreached({ cwd, openers }: DoctorCli, jobs: readonly Job[]): number {
  if (openers.findOutbox() === undefined) return 0;
  const own = jobs.filter(({ file }) => dirname(resolve(cwd, file)) !== dirname(openers.shippedJob));
  const addresses = own.flatMap(({ reports, alerts }) => [
    ...reports.flatMap(({ to }) => to.map(({ address }) => address)),
    ...alerts.to,
  ]);
  return new Set(addresses.map((address) => address.toLowerCase())).size;
}

/** After the stores: one that cannot be read has its own finding, and needs room for a guess. */
async function examineRoom({ cwd, openers }: DoctorCli, jobs: readonly Job[]) {
  return await tryCheck('disk', async () => {
    const outbox = openers.findOutbox();
    const places: WrittenPlace[] = outbox ? [{ what: 'mail', path: outbox, bytes: OUTBOX_NIGHT_BYTES }] : [];
    let isGuess = jobs.length === 0;
    for (const job of jobs) {
      const need = await estimateJob(openers, job);
      const location = parseLocation(job.drop.to, cwd);
      isGuess ||= need.isGuess;
      places.push({ what: 'state', path: openers.stateDir, bytes: need.state });
      if (location.kind === 'directory') places.push({ what: 'drops', path: location.path, bytes: need.drop });
    }
    return await checkRoom(places, isGuess);
  });
}

async function estimateJob(openers: DoctorCli['openers'], job: Job): Promise<NightNeed> {
  const store = await openers.openStore(job.drop.to, { objects: job.drop.s3 }).catch(() => undefined);
  if (store === undefined) return await estimateNight(job);
  try {
    return await estimateNight(job, store).catch(() => estimateNight(job));
  } finally {
    await store.close();
  }
}

/** Logs in and asks for the table; whether it may be changed, only a run finds out. */
async function examineCatalog({ openers, signal }: DoctorCli, { drop }: Job): Promise<readonly Finding[]> {
  const { catalog: target } = drop;
  if (target === null) return [];
  return await tryCheck('catalog', async () => {
    const catalog = await openers.openCatalog(target);
    const loaded = await catalog.load(signal);
    return `${catalog.place} ${loaded ? 'is there' : 'will be registered by the next run'}`;
  });
}

const STATUS_WIDTH = 'warn'.length;
const CHECK_WIDTH = 'store: conditional put'.length;

/** The next step is below the finding, so that both may be long. @param width cells of the terminal */
function formatFinding({ check, status, seen, next }: Finding, width: number | undefined): string {
  const indent = STATUS_WIDTH + CHECK_WIDTH + 4;
  const head = `${(status === 'ok' ? status : status.toUpperCase()).padEnd(STATUS_WIDTH)}  ${check.padEnd(CHECK_WIDTH)}  `;
  const below = (text: string) => text.replaceAll('\n', `\n${' '.repeat(indent)}`);
  const what = hangText(`${head}${below(seen)}`, width, indent);
  return `${what}\n${next ? `${hangText(`${' '.repeat(indent)}-> ${below(next)}`, width, indent + '-> '.length)}\n` : ''}`;
}
