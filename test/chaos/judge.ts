/**
 * What a chaos run must have proved: each attempt ended sensibly and said what it did not do; in the end every date that is
 * over is sealed and equals the source row for row but for quarantined rows, one revision of it; nothing unfinished or
 * clipped was ever sealed; each mail went once; nothing is left that blocks; the requests are bounded. Invariant: nothing
 * is taken from the product's word alone.
 */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { dropKey, fileKey } from '../../src/ledger/layout.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { readWithHyparquet } from '../support/drop.ts';
import { flowdrop } from '../support/flowdrop.ts';
import { RECIPIENTS } from './mail.ts';
import { type Place, TEMPORARY } from './place.ts';
import {
  CLIPPED,
  createOtherRows,
  createSettledRows,
  DOUBTED_MOVES,
  EVENING,
  lastSecondOf,
  type Move,
  UNFINISHED,
} from './rows.ts';
import type { Run } from './run.ts';
import type { ChaosTable } from './table.ts';
import { NO_TROUBLE, SEEN_MINUTES, type Trouble } from './trouble.ts';
import type { Attempt } from './worker.ts';

type Environment = (run: Run, worker: number, ownClockMs: number) => Promise<Readonly<Record<string, string>>>;

/** Requests that a worker has in flight at most: what a kill can lose between answer and stage. */
const MAX_IN_FLIGHT = 12;
/** Requests of an attempt that are no pages: counts and cuts; more where it is yet to be learnt how much may be read at once. */
const MAX_OTHER_REQUESTS = { whole: 24, inParts: 64 } as const;
/** For each window that moved rows touch: once more its page, and once more its count. */
const REQUESTS_A_TOUCHED_WINDOW = 2;
/** Documented exit codes of an attempt that may succeed later: failed, refused, incomplete. */
const SENSIBLE_CODES: ReadonlySet<number | null> = new Set([0, 1, 2, 3]);
const TAIL = 2_000;

/** A date with rows in quarantine stays degraded, which a run says for as long as it can be exported again. */
export function hasEndedWell({ code, stdout }: { readonly code: number | null; readonly stdout: string }): boolean {
  return code === 0 || (code === 3 && /: degraded/.test(stdout));
}

/** @returns whether the date is sealed */
export async function judgeAttempt(run: Run, attempt: Attempt, trouble: Trouble): Promise<boolean> {
  const { problems } = run;
  const { code, kill, disk, stdout, stderr } = attempt;
  const tail = stderr.slice(-TAIL);
  if (kill === 'hung') problems.push(`an attempt hung:\n${tail}`);
  // The engine is native code: on a broken disk it may end the process, which the next attempt must survive.
  if (code === null && kill === undefined && disk === undefined) problems.push(`an attempt crashed:\n${tail}`);
  if (code !== null && !SENSIBLE_CODES.has(code)) problems.push(`an attempt ended with ${code}:\n${tail}`);
  if (stderr.includes('flowdrop: UNEXPECTED')) problems.push(`an attempt failed without knowing why:\n${tail}`);
  if (trouble.isCalm && !hasEndedWell(attempt))
    problems.push(`an attempt without trouble ended with ${code}:\n${tail}`);
  if (code !== 0 && kill === undefined && trouble.areOnlyRows && !isLargeLoss(trouble))
    problems.push(`rows that move alone kept an attempt from sealing: ${describeEnd(attempt)}:\n${tail}`);
  const isSealed = await isDateSealed(run);
  if (isSealed || code === null) return isSealed;
  // Two clocks that are wrong alike, before any row is asked for, look like the right time: nothing is due then.
  // An API that tells no time leaves one clock, which nothing contradicts.
  const api = trouble.apiClock;
  const areAlike = api && attempt.ownClockMs !== 0 && ('garbage' in api || api.offsetMs === attempt.ownClockMs);
  if (code !== 0 || areAlike || /clock/i.test(stdout + stderr)) run.told += 1;
  else {
    const clocks = `own clock ${attempt.ownClockMs}, API's ${JSON.stringify(trouble.apiClock)}`;
    problems.push(
      `an attempt ended with 0, the date is not sealed, and nothing says why (${clocks}):\n${stdout}${tail}`,
    );
  }
  return false;
}

/** What is sealed, and what the source has. */
export interface SealedState {
  readonly place: Pick<Place, 'list' | 'fetch'>;
  readonly source: { readonly date: string; readonly table: Pick<ChaosTable, 'rows' | 'doubles' | 'lags'> | undefined };
  readonly problems: string[];
}

export async function isDateSealed({ place, source }: Omit<SealedState, 'problems'>): Promise<boolean> {
  return (await place.list()).includes(nameObjects(source.date).manifestName);
}

/**
 * What is sealed after an attempt: never rows that were there twice for a while, nor rows without those that a replica
 * lacks which is so far behind that it is seen.
 */
export async function judgeSealed(run: SealedState, { lag }: Pick<Trouble, 'lag'>): Promise<void> {
  const { place, source, problems } = run;
  const { table, date } = source;
  if (!table || (lag === undefined && table.doubles.size === 0) || !(await isDateSealed(run))) return;
  const { drop, manifestName } = nameObjects(date);
  // A store may have lost it; the next attempt makes it again.
  if (!(await place.list()).includes(drop)) return;
  const manifest = JSON.parse(await readFile(await place.fetch(manifestName), 'utf8')) as Manifest;
  if (manifest.condition === 'degraded' && !manifest.degraded_reason)
    problems.push(`${date} is degraded, and does not say why`);
  const ids = new Set((await readWithHyparquet(await place.fetch(drop))).map(({ id }) => String(id)));
  const twice = [...table.doubles].filter((id) => ids.has(id));
  if (twice.length > 0)
    problems.push(`${twice.length} rows of ${date} were sealed that were loaded twice: ${twice[0]}`);
  // One that was not seen left a drop that is short until the next run which finds the source whole.
  if (lag === undefined || [lag, ...table.lags].some(({ minutes }) => minutes < SEEN_MINUTES)) return;
  const since = lastSecondOf(lag);
  // As they were at first: what moves may be withdrawn.
  const first = new Map(createSettledRows().map(({ id, values }) => [id, values['time']]));
  const lacking = table.rows.filter(({ id, values, isOdd }) => {
    const time = String(values['time']);
    return values['date'] === date && time > since && time === first.get(id) && !isOdd && !ids.has(id);
  });
  if (lacking.length > 0) problems.push(`${date} was sealed without ${lacking.length} of its rows after ${since}`);
}

/** More rows than that gone look like a replica that lags, or a reload: then a date may be refused. */
const MOST_LOST_ROWS = 100;
const LOSING: ReadonlySet<Move> = new Set(['rows-vanish', 'rows-change', 'rows-redated']);

function isLargeLoss({ rows }: Trouble): boolean {
  const lost = rows.filter(({ move }) => LOSING.has(move));
  return lost.reduce((sum, each) => sum + each.rows, 0) > MOST_LOST_ROWS;
}

/** What goes on, and what is clipped, is not sealed by anybody. */
export async function judgeUnfinished({ source, place, problems }: Run): Promise<void> {
  if (!source.table) return;
  const names = await place.list();
  for (const date of [UNFINISHED, CLIPPED]) {
    if (names.includes(nameObjects(date).manifestName)) problems.push(`${date} was sealed, and it is not whole`);
  }
}

/** A last run without trouble changes nothing of what is sealed, and seals what is over since. */
export async function judgeEnd(
  run: Run,
  environmentOf: Environment,
): Promise<{ readonly equalDates: number; readonly mailsDue: number }> {
  const { api, place, cwd, job, mail, clock, problems, source, attempts } = run;
  api.trouble(NO_TROUBLE);
  place.trouble(NO_TROUBLE);
  mail?.trouble(() => undefined);
  const windows = await countWindows(run);
  checkRequests(run, windows);
  const dates = [source.date];
  if (source.table) {
    await source.table.plan([]);
    const there = new Set(source.table.rows.map(({ id }) => id));
    await clock.leapTo(EVENING);
    await source.table.change({ remove: [], add: createOtherRows(true).filter(({ id }) => !there.has(id)) });
    dates.push(UNFINISHED);
  }
  const env = await environmentOf(run, 0, 0);
  const before = attempts.length;
  const again = await flowdrop(['run', job], { cwd, env });
  if (!hasEndedWell(again))
    problems.push(`a run after the last ended with ${again.code}: ${again.stderr.slice(-TAIL)}`);
  const verified = await flowdrop(['verify', job], { cwd, env });
  if (verified.code !== 0) problems.push(`verify ended with ${verified.code}: ${verified.stdout}${verified.stderr}`);
  const names = await place.list();
  const expected = new Set([
    '_flowdrop/trades/condition.json',
    '_flowdrop/trades/fields/v1.json',
    ...dates.flatMap((date) => nameObjects(date).all),
  ]);
  judgeLeftovers(
    run,
    names
      .filter((name) => !expected.has(name) && !BESIDE.test(name))
      .filter((name) => !isRestated(run) || !HISTORY.test(name))
      .filter((name) => !run.losses.includes('lost decision.json') || !UNDECIDED.test(name)),
    before,
  );
  let equalDates = 0;
  for (const date of dates) {
    const found = problems.length;
    await judgeDate(run, date, names);
    if (problems.length === found) equalDates += 1;
  }
  judgeMails(run, dates);
  return { equalDates, mailsDue: mail ? dates.length * RECIPIENTS.length : 0 };
}

/** What is beside the drops: what the store is known by, reports, and decisions that were set aside for the operator. */
const BESIDE = /^_flowdrop\/(store\.json$|reports\/|alerts\/|sealing\/[^/]+\/set-aside\/)/;
/** What is left of a revision that was made again, because an object of it was lost. */
export const HISTORY = /^_flowdrop\/trades\/history\//;
/** Files of a revision whose decision the store lost: a run removes them after a day. */
const UNDECIDED = /^_flowdrop\/sealing\/trades\/session=[\d-]+\/rev=\d+\/[0-9a-f]{64}\.parquet$/;

/** What was lost is made again, perhaps as another revision; what changed after it was sealed is another one. */
function isRestated({ losses, source, plan, hasMovedSince }: Run): boolean {
  const isDoubted = DOUBTED_MOVES.some((move) => plan.kinds.includes(move));
  return losses.length > 0 || isDoubted || hasMovedSince || (source.table?.lags.length ?? 0) > 0;
}

async function judgeDate(run: Run, date: string, names: readonly string[]): Promise<void> {
  const { place, problems, source } = run;
  const { drop, manifestName, quarantine } = nameObjects(date);
  if (!names.includes(drop) || !names.includes(manifestName)) {
    problems.push(`the drop of ${date} is not there: ${names.join(', ')}`);
    return;
  }
  const manifest = JSON.parse(await readFile(await place.fetch(manifestName), 'utf8')) as Manifest;
  const path = await place.fetch(drop);
  const hash = `sha256:${createHash('sha256')
    .update(await readFile(path))
    .digest('hex')}`;
  const truth = await source.readTruth(date);
  const refused = source.quarantined(date);
  const revision = isRestated(run) ? manifest.revision : 1;
  for (const [name, value, right] of [
    ['hash', manifest.files[0].hash, hash],
    ['rows', manifest.rows, truth.rows],
    ['source_rows', manifest.source_rows, truth.rows + refused.length],
    ['revision', manifest.revision, revision],
    ['condition', manifest.condition, refused.length > 0 ? 'degraded' : 'available'],
  ] as const) {
    if (value !== right) problems.push(`the manifest's ${name} of ${date} is ${value}, not ${right}`);
  }
  problems.push(...(await truth.compare(path)).map((difference) => `the drop of ${date} differs: ${difference}`));
  if (refused.length === 0) return;
  const text = names.includes(quarantine) ? await readFile(await place.fetch(quarantine), 'latin1') : '';
  const lines = text.split('\n').filter((line) => line !== '');
  const isHeld = (id: string) => lines.some((line) => readQuarantined(line).includes(id));
  const lacking = refused.filter((id) => !isHeld(id));
  if (lines.length !== refused.length || lacking.length > 0)
    problems.push(
      `${lines.length} rows of ${date} are in quarantine, not ${refused.length}; ${lacking.length} of these are not: ${lacking.join(', ')}`,
    );
}

/** The bytes of a row that was kept out. */
function readQuarantined(line: string): string {
  const { row, encoding } = JSON.parse(line) as { readonly row: string; readonly encoding: string };
  return encoding === 'base64' ? Buffer.from(row, 'base64').toString('latin1') : row;
}

/**
 * Nobody is left out, one revision has one Message-ID, and only an interruption explains a second mail of a date: under
 * the same Message-ID, or that of the next revision if the date was sealed again before the worker came back.
 */
function judgeMails({ mail, attempts, place, problems, losses }: Run, dates: readonly string[]): void {
  if (!mail) return;
  const interruptions =
    attempts.filter(({ code, slept }) => code === null || slept !== undefined).length +
    mail.faults.filter((fault) => fault === 'mail-lost-answer').length +
    // The store went away between a mail and its receipt.
    place.faults().filter((fault) => fault === 'unmounted').length +
    // Without its receipt nobody knows that a mail was taken, by none of its recipients.
    losses.filter((loss) => loss.startsWith('lost receipt/')).length * RECIPIENTS.length;
  let repeated = 0;
  for (const to of RECIPIENTS) {
    const got = mail.taken.filter((taken) => taken.to === to);
    const ids = new Set(got.map(({ messageId }) => messageId));
    const mailed = new Set([...ids].map((id) => readMailed(id).date));
    const left = dates.filter((date) => !mailed.has(date));
    if (left.length > 0) problems.push(`${to} got no mail of ${left.join(', ')}: ${[...ids].join(', ')}`);
    const revisions = new Set([...ids].map((id) => readMailed(id).revision));
    if (revisions.size !== ids.size)
      problems.push(`${to} got one revision under two Message-IDs: ${[...ids].join(', ')}`);
    repeated += got.length - mailed.size;
  }
  if (repeated > interruptions)
    problems.push(
      `${repeated} mails were repeated, and ${interruptions} kills, sleeps, lost answers and lost receipts explain them`,
    );
}

/** A Message-ID is `<job.date.rN.hash@domain>`. */
export function readMailed(messageId: string): { readonly date: string; readonly revision: string } {
  const [revision = messageId, date = messageId] = /\.(\d{4}-\d\d-\d\d)\.r\d+\./.exec(messageId) ?? [];
  return { date, revision };
}

function nameObjects(date: string) {
  const drop = dropKey('trades', date);
  const at = (name: string) => fileKey('trades', date, name);
  const [manifestName, quarantine] = [at('manifest.json'), at('quarantine.ndjson')];
  return {
    drop,
    manifestName,
    quarantine,
    all: [drop, manifestName, quarantine, at('summary.parquet'), at('counts.parquet')],
  };
}

/**
 * A kill, and a store that goes away, may leave one temporary file, which no listing shows, or an upload's parts; nothing
 * else may be left by anything.
 */
function judgeLeftovers(
  { attempts, place, problems, remains }: Run,
  leftovers: readonly string[],
  before: number,
): void {
  const unmounts = place.faults().filter((fault) => fault === 'unmounted').length;
  const died = attempts.slice(0, before).filter(({ code }) => code === null).length + unmounts;
  for (const name of leftovers) {
    const isTemporary = TEMPORARY.test(name);
    if (isTemporary) remains.push('temporary file');
    if (!isTemporary || remains.length > died) problems.push(`left over in the store: ${name}`);
  }
}

async function countWindows({ place, source }: Run): Promise<number> {
  const { manifestName } = nameObjects(source.date);
  if (!(await place.list()).includes(manifestName)) return 0;
  const manifest = JSON.parse(await readFile(await place.fetch(manifestName), 'utf8')) as Manifest;
  return manifest.windows.length;
}

/**
 * Every page that went through whole is a window of the manifest, or was touched by rows that moved, or was lost between
 * answer and stage when an attempt ended: at most those in flight then. Until the row limit has been learnt and saved, each
 * attempt may have as many answers again that are truncated. A proxy that refuses connections breaks those that it has,
 * too. Everything else that was asked is bounded by the attempt.
 */
function checkRequests(run: Run, windows: number): void {
  const { source, api, scenario, attempts, problems, losses } = run;
  if (windows === 0) return;
  const whole = source.answeredPages() - api.brokenPages();
  const ended = attempts.filter(({ code }) => code !== 0).length;
  const refused = api.faults().filter((kind) => kind === 'refuse').length;
  const workers = scenario.workers + attempts.filter(({ slept }) => slept !== undefined).length + losses.length;
  const moved = (source.table?.done ?? []).reduce(
    (sum, { rows, move }) => {
      const touched = Math.min(windows, move === 'rows-change' ? 2 * rows : rows);
      return sum + REQUESTS_A_TOUCHED_WINDOW * touched;
    },
    REQUESTS_A_TOUCHED_WINDOW * windows * (source.table?.lags.length ?? 0),
  );
  const allowed = windows * workers + MAX_IN_FLIGHT * (2 * ended + workers + refused * workers) + moved;
  if (whole > allowed)
    problems.push(`${whole} pages were answered whole, and ${allowed} explain the drop and ${ended} ended attempts`);
  const rounds = attempts.length + (source.table?.done.length ?? 0);
  const others = MAX_OTHER_REQUESTS[scenario.source.scanLimit === undefined ? 'whole' : 'inParts'];
  const most = allowed + api.faults().length + rounds * others;
  if (api.requests > most) problems.push(`${api.requests} requests were sent, and ${most} are explained`);
}

export function describeEnd({ code, kill, stderr }: Attempt): string {
  if (kill) return `killed (${kill})`;
  if (code === null) return 'crashed';
  const reason =
    /"event":"date-failed"[^\n]*?"code":"(\w+)"/.exec(stderr)?.[1] ?? /^flowdrop: (\w+):/m.exec(stderr)?.[1];
  return `exit ${code}${reason ? ` ${reason}` : ''}`;
}
