/**
 * `flowdrop doctor [JOB]`: tries everything that a run needs, and prints for each check the finding and what to do.
 * Of a source, one request of the cheapest kind shows whether the key is accepted, how far the clocks
 * differ, and which limits the API reports. Another asks for the newest row: no clock can be earlier than it.
 */
import { dirname, join, resolve } from 'node:path';
import type { HistoricalMeta } from '../../api-contract/historical.ts';
import { LOOKBACK_DAYS, MINIMUM_DATA_DELAY_MINUTES } from '../../api-contract/published-limits.ts';
import { formatWallDate, parseSecond } from '../../calendar/wall-clock.ts';
import { wholeDay } from '../../calendar/window.ts';
import { removeEmptyFolders } from '../../core/atomic-file.ts';
import { EXIT_CODES } from '../../core/errors.ts';
import { readFileLimit, readMemoryBytes } from '../../core/machine.ts';
import { countOf } from '../../core/units.ts';
import { FEW_PAGE_ROWS } from '../../export/trades/fetch.ts';
import { askBroadly, isRefusal } from '../../export/trades/scan.ts';
import type { Job } from '../../job/job.ts';
import { assertDistinct, listJobFiles, readJob } from '../../job/job-folder.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { MAX_CLOCK_SKEW_MS } from '../../plan/clocks.ts';
import { lookbackOf } from '../../plan/dates.ts';
import { visibleSince } from '../../plan/session-end.ts';
import { buildNewest, buildPage } from '../../plan/statement.ts';
import { readSourceSql } from '../../run/job-sql.ts';
import type { OpenedSource, OpenedSql } from '../../run/open-source.ts';
import { SourceFault } from '../../source/source.ts';
import { DOCTOR_PREFIX, parseLocation } from '../../store/object-key.ts';
import { greet } from '../check.ts';
import { assertShareable, type Call, type Cli, withLedger, withSource } from '../context.ts';
import { hangText } from '../terminal/text.ts';
import {
  checkDrawing,
  checkEngine,
  checkLimits,
  checkRoom,
  checkSecrecy,
  checkSettings,
  checkStateDirectory,
  checkStore,
  type Finding,
  type Findings,
  fail,
  findExisting,
  ok,
  tryCheck,
  type WrittenPlace,
  warn,
} from './checks.ts';

export async function doctor(cli: Cli, { argument }: Call<'doctor'>) {
  const { openers, terminal, globals } = cli;
  const checks: Finding[] = [];
  for await (const found of examineAll(cli, argument)) {
    for (const { check, status, seen, next } of found) {
      const finding = { check, status, seen: openers.redact(seen), next: next ? openers.redact(next) : null };
      checks.push(finding);
      // Printed at once: a silent server may delay the next one.
      if (!globals.json) terminal.out(formatFinding(finding, terminal.columns.out));
    }
  }
  const count = (status: Finding['status']) => checks.filter((finding) => finding.status === status).length;
  const failures = count('fail');
  const sums = `${countOf(checks.length, 'check')}: ${count('ok')} ok, ${count('warn')} warn, ${failures} fail\n`;
  cli.print({ ok: failures === 0, checks }, sums);
  return failures === 0 ? undefined : EXIT_CODES.failed;
}

async function* examineAll(cli: Cli, reference: string | undefined): AsyncIterable<Findings> {
  const { openers, globals } = cli;
  yield checkSettings(openers.reportSettings());
  yield await tryCheck('settings file', () => checkSecrecy(join(cli.cwd, '.env')));
  yield await tryCheck('calendar', async () => {
    const { closed, earlyClose, open } = await openers.readCalendar();
    const dates = closed.size + earlyClose.size + open.size;
    return dates === 0 ? [] : `${countOf(dates, 'calendar exception')} from FLOWDROP_CALENDAR_FILE`;
  });
  const jobs: Job[] = [];
  yield await tryCheck('jobs', () => readJobs(cli, reference, jobs));
  // Without a job, the shipped one still tests the key. Jobs of one API or table share key, clock and limits.
  const tried = jobs.length > 0 ? jobs : [await readJob(openers.shippedJob, globals.jobs)];
  const nameOf = ({ source }: Job) => (source.kind === 'table' ? `${source.api} ${source.table}` : source.api);
  for (const job of pickOne(tried, nameOf)) {
    yield await tryCheck(job.source.api, async () => {
      // An unreadable calendar has its own finding.
      const calendar = await openers.readCalendar().catch(() => undefined);
      return await withSource(cli, job, (opened) => checkSource(job.source.api, opened), { calendar });
    });
  }
  yield await tryCheck('redis', async () => {
    for (const job of jobs) assertShareable(job, openers.readRedisUrl() !== undefined);
    return (await openers.checkRedis()) || [];
  });
  // One job per place and way to write there.
  for (const job of pickOne(jobs, ({ drop }) => JSON.stringify([drop.to, drop.s3])))
    yield await tryCheck('store', () => examineStore(cli, job));
  for (const job of jobs) yield await tryCheck('catalog', () => examineCatalog(cli, job));
  yield await tryCheck('mail', () => examineMail(cli, jobs));
  yield await checkStateDirectory(openers.stateDir);
  // After the stores: one that cannot be read has its own finding, and needs room for a guess.
  yield await tryCheck('disk', () => examineRoom(cli, jobs));
  yield await checkLimits(readMemoryBytes(), readFileLimit());
  yield await tryCheck('drawing', checkDrawing);
  yield await tryCheck('engine', async () => await checkEngine(await openers.openEngine({ signal: cli.signal })));
}

/** @param jobs gets those that are valid */
async function readJobs({ openers, globals }: Cli, reference: string | undefined, jobs: Job[]): Promise<Findings> {
  const faults: Finding[] = [];
  for (const file of reference === undefined ? await listJobFiles(globals.jobs) : [reference]) {
    const found = await tryCheck('jobs', async () => {
      const job = await readJob(file, globals.jobs);
      await readSourceSql(openers, job);
      jobs.push(job);
      return [];
    });
    faults.push(...found);
  }
  assertDistinct(jobs);
  if (jobs.length > 0) return [ok('jobs', `read: ${jobs.map(({ name }) => name).join(', ')}`), ...faults];
  return faults.length > 0 ? faults : [warn('jobs', `no job file in ${globals.jobs}`, '`flowdrop init` writes one.')];
}

function pickOne(jobs: readonly Job[], keyOf: (job: Job) => string): Iterable<Job> {
  return new Map(jobs.map((job) => [keyOf(job), job])).values();
}

async function examineStore({ openers, cwd }: Cli, job: Job): Promise<Findings> {
  const location = parseLocation(job.drop.to, cwd);
  const examine = () => withLedger(openers, job, ({ store }) => checkStore(store));
  if (location.kind === 's3') return await examine();
  // Testing a store in a directory creates folders.
  const before = await findExisting(location.path);
  return await examine().finally(() => removeEmptyFolders(join(location.path, DOCTOR_PREFIX), before));
}

/** Logs in and asks for the table; whether it may be changed, only a run finds out. */
async function examineCatalog({ openers, signal }: Cli, { drop }: Job): Promise<Findings | string> {
  if (drop.catalog === null) return [];
  const catalog = await openers.openCatalog(drop.catalog);
  const loaded = await catalog.load(signal);
  return `${catalog.place} ${loaded ? 'is there' : 'will be registered by the next run'}`;
}

/**
 * Connects, encrypts and logs in as a delivery would, but sends nothing. Without a server, mail goes to the outbox, and
 * the addresses of the jobs get nothing; those of the shipped jobs are examples.
 */
async function examineMail({ openers, cwd }: Cli, jobs: readonly Job[]): Promise<Findings | string> {
  const mailer = await openers.openMailer();
  const seen = await mailer.verify().finally(() => mailer.close());
  const own = jobs.filter(({ file }) => dirname(resolve(cwd, file)) !== dirname(openers.shippedJob));
  const addresses = own.flatMap(({ reports, alerts }) => [
    ...reports.flatMap(({ to }) => to.map(({ address }) => address)),
    ...alerts.to,
  ]);
  const count = new Set(addresses.map((address) => address.toLowerCase())).size;
  if (mailer.delivers || count === 0) return seen;
  const who = `${countOf(count, 'address', 'addresses')} in the job files`;
  const next = 'Set FLOWDROP_SMTP_URL or FLOWDROP_SMTP_URL_FILE; to `folder`, if mail belongs there.';
  return [warn('mail', `${seen}; the ${who} will receive nothing`, next)];
}

/** A full session of 7 million trades, measured; the sums and snapshots of other jobs are far smaller. */
const GUESSED_DROP_BYTES = 650_000_000;
const GUESSED_OTHER_BYTES = 100_000_000;
/** A staged row takes about eight times what it takes in the drop: 5 GB for a full session. */
const STAGE_FACTOR = 8;
/** The largest of these is expected. */
const DATES_LOOKED_AT = 20;
/** Mails with their attachments. */
const OUTBOX_NIGHT_BYTES = 20_000_000;

/** Whether a night of the jobs fits on each disk that it writes to; before the first drop, what it needs is a guess. */
async function examineRoom({ cwd, openers }: Cli, jobs: readonly Job[]): Promise<Findings> {
  const outbox = openers.findOutbox();
  const places: WrittenPlace[] = outbox ? [{ what: 'mail', path: outbox, bytes: OUTBOX_NIGHT_BYTES }] : [];
  let isGuess = jobs.length === 0;
  for (const job of jobs) {
    const { kind } = job.source;
    const largest = await withLedger(openers, job, findLargest).catch(() => 0);
    isGuess ||= largest === 0;
    const bytes = largest || (kind === 'rows' || kind === 'table' ? GUESSED_DROP_BYTES : GUESSED_OTHER_BYTES);
    const isStaged = kind === 'rows' || kind === 'aggregate';
    places.push({ what: 'state', path: openers.stateDir, bytes: bytes * (isStaged ? STAGE_FACTOR + 1 : 1) });
    const location = parseLocation(job.drop.to, cwd);
    if (location.kind === 'directory') places.push({ what: 'drops', path: location.path, bytes });
  }
  return await checkRoom(places, isGuess);
}

/** Size of the largest of the newest drops; 0 without one. */
async function findLargest(ledger: Ledger): Promise<number> {
  const newest = [...(await ledger.conditions()).entries.values()].slice(-DATES_LOOKED_AT);
  return Math.max(0, ...newest.map(({ size }) => size ?? 0));
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

/** The `Date` header has whole seconds, and an answer takes time: a smaller difference may be none. */
const NOTABLE_SKEW_MS = 2_000;
/**
 * A run uses the server's clock. But S3 refuses requests signed 15 minutes off, certificates and schedules use this
 * machine's clock, and a clock that is a minute off is not being synchronized.
 */
const BROKEN_SKEW_MS = 60_000;

/** @param name source name in the table of findings @throws SourceFault */
export async function checkSource(name: string, opened: OpenedSource): Promise<Findings> {
  const clock = `${name}: clock`;
  if (opened.kind !== 'sql') return [ok(name, await greet(opened)), describeSkew(clock, opened)];
  const { job, source, clocks, signal } = opened;
  const statement = buildPage(job, wholeDay(formatWallDate(clocks.ownNow())), 'closed');
  const { meta } = await source.ask(statement, { testMode: true, signal });
  return [
    ok(name, `the API at ${source.url} accepts the key`),
    describeSkew(clock, opened),
    ...(await checkNewest(`${name}: newest row`, opened)),
    ...(meta === undefined ? [] : [describeLimits(`${name}: limits`, meta)]),
  ];
}

function describeSkew(check: string, { source, clocks }: OpenedSource): Finding {
  if (!clocks.isChecked) {
    return warn(
      check,
      "FLOWDROP_CLOCK=source: the source's clock alone decides what is sealed",
      'Unset it, unless this is a rehearsal against a service whose clock was set.',
    );
  }
  if (!source.tellsTime()) {
    return warn(
      check,
      'the source sends no time (its answers have no valid Date header)',
      'Runs use this clock and the rows of the source. Check the proxies between here and the API.',
    );
  }
  const skewMs = source.serverNow() - clocks.ownNow();
  const away = Math.abs(skewMs);
  const seconds = (away / 1000).toFixed(away < 10_000 ? 1 : 0);
  if (away <= NOTABLE_SKEW_MS) return ok(check, 'this clock and that of the source agree within 2 s');
  return (away > BROKEN_SKEW_MS ? fail : warn)(
    check,
    `this clock is ${seconds} s ${skewMs > 0 ? 'behind' : 'ahead of'} that of the source`,
    'Set the clock of this machine by NTP (timedatectl, chrony). If the clocks are 2 minutes apart, runs hold back the dates they disagree on. S3 refuses requests that are 15 minutes off.',
  );
}

/** The third witness: the newest row must be as old as the clocks expect, neither older nor newer. */
async function checkNewest(check: string, opened: OpenedSql): Promise<Findings> {
  const { calendar, clocks } = opened;
  const date = lookbackOf(opened.job, clocks.earliest(), calendar).lastSettled;
  if (date === undefined || !clocks.isChecked) return [];
  const page = await askBroadly(opened, buildNewest(opened.job, date, calendar), isRefusal);
  if (page instanceof SourceFault)
    return [ok(check, 'the API did not return it; runs use the clocks and their own rows')];
  const newest = String(page.firstRow?.['newest'] ?? '');
  const [, day = '', time = ''] = /^(\S+) (\d\d:\d\d:\d\d)/.exec(newest) ?? [];
  if (day < date) {
    const seen = `no rows from the end of ${date}, although the clocks say that the session is over`;
    const next = 'The source lags, or both clocks are fast. Runs hold the date back until its last rows arrive.';
    return [warn(check, seen, next)];
  }
  const rowMs = visibleSince(day, parseSecond(time));
  clocks.see(rowMs);
  const conflict = clocks.conflict();
  if (conflict === undefined || rowMs <= clocks.ownNow() + MAX_CLOCK_SKEW_MS) {
    return [ok(check, `it is from ${newest} (exchange time), which agrees with the clocks`)];
  }
  return [fail(check, conflict, 'Correct the slow clock; until then runs hold dates back.')];
}

function describeLimits(check: string, meta: HistoricalMeta): Finding {
  const { lookback_days: days, minimum_data_delay_minutes: delay, row_limit: rows, entitlement, capped } = meta;
  const seen = [
    days === undefined ? 'lookback unknown' : `${countOf(days, 'day')} of lookback`,
    `rows at least ${delay} minutes old`,
    `${countOf(rows, 'row')} per answer`,
    `entitlement ${entitlement}${capped ? ', rows capped' : ''}`,
  ].join(', ');
  const notes = [
    days !== undefined &&
      days < LOOKBACK_DAYS &&
      `Dates expire after ${days} days, not ${LOOKBACK_DAYS}: repair failed runs before that.`,
    delay > MINIMUM_DATA_DELAY_MINUTES &&
      `Rows come ${delay} minutes late, not ${MINIMUM_DATA_DELAY_MINUTES}: schedule the job later.`,
    rows < FEW_PAGE_ROWS && 'So few rows in an answer are unusable: runs fail large dates at once. Ask the provider.',
    capped && `The trial caps an answer at ${countOf(rows, 'row')}: dates are complete, with more requests.`,
  ].filter((note) => note !== false);
  return notes.length === 0 ? ok(check, seen) : warn(check, seen, notes.join(' '));
}
