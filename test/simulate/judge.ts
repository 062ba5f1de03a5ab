/**
 * Whether a simulated life went well, judged from outside: the Parquet files row by row against the states that the source's
 * rows were ever in, the mails that the server took, and the conditions in the store. Invariant: nothing of the product
 * takes part in the comparison.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { formatWallClock } from '../../src/calendar/wall-clock.ts';
import { expiresAt } from '../../src/plan/dates.ts';
import { readMailed } from '../chaos/judge.ts';
import { type ApiRow, readWithDuckDb } from '../support/drop.ts';
import type { TradeRow } from '../support/trades.ts';
import type { DrawnLife } from './draw.ts';
import type { Version } from './table.ts';
import type { SimulatedRun } from './world.ts';

/** A mail that the server took, and the run in which it did. */
export interface TakenInRun {
  readonly to: string;
  readonly messageId: string;
  readonly run: number;
}

export interface Lived {
  readonly drawn: Pick<DrawnLife, 'job' | 'dates' | 'cared' | 'recipients'> &
    Partial<Pick<DrawnLife, 'lagging' | 'evenings'>>;
  /** Runs, by number, that began while the source lacked the last rows of a date. */
  readonly behind?: ReadonlySet<number>;
  readonly storeFolder: string;
  readonly runs: readonly SimulatedRun[];
  readonly mails: readonly TakenInRun[];
  readonly versions: (date: string) => readonly Version[];
}

export interface Verdict {
  readonly problems: readonly string[];
  readonly equal: number;
  /** Sealed dates of which nobody was to care when they expired, and which differ from the last state of the source. */
  readonly stale: number;
  readonly lost: number;
}

/** Of the source. */
const DELAY_MS = 15 * 60_000;
/** Headers and records have whole seconds. */
const CLOCK_MS = 1_000;

interface Entry {
  readonly date: string;
  readonly condition: string;
  readonly audit?: { readonly audited_at: string; readonly result: string; readonly revision: number };
}

interface Sealed {
  readonly revision: number;
  readonly rows: number;
  readonly sealed_at: string;
  readonly condition: string;
  readonly through?: string;
  readonly degraded_reason?: string;
  readonly held?: string;
  readonly changes?: { readonly extended?: boolean } | null;
}

/** Rows that may be gone, or repeat others, without a doubt: the lives' dates are small. */
const FEW_GONE = 5;
const FEW_REPEATED = 10;

export async function judgeLife(lived: Lived): Promise<Verdict> {
  const { drawn, storeFolder, runs } = lived;
  const problems: string[] = [];
  const entries = (await readJson<Entry[]>(join(storeFolder, '_flowdrop/trades/condition.json'))) ?? [];
  let [equal, stale, lost] = [0, 0, 0];
  const drops = new Map<string, ReadonlySet<string>>();
  const held = new Set<string>();
  for (const date of drawn.dates) {
    const folder = join(storeFolder, `_flowdrop/trades/session=${date}`);
    const manifest = await readJson<Sealed>(join(folder, 'manifest.json'));
    const entry = entries.find((one) => one.date === date);
    const last = lived.versions(date).at(-1)?.rows ?? new Map();
    if (manifest === undefined) {
      const problem = explainLoss(lived, date, entry, last.size);
      if (problem === undefined) lost += 1;
      else problems.push(problem);
      continue;
    }
    const path = join(storeFolder, `trades/session=${date}/trades.parquet`);
    const rows = await readWithDuckDb(path).catch((error: unknown) => String(error));
    if (typeof rows === 'string') {
      problems.push(`${date}: its drop cannot be read: ${rows}`);
      continue;
    }
    drops.set(date, new Set(rows.map((row) => String(row['id']))));
    if (manifest.held !== undefined) held.add(date);
    if (rows.length !== manifest.rows)
      problems.push(`${date}: ${rows.length} rows, and ${manifest.rows} in the manifest`);
    const names = drawn.job.source.columns.map(({ name }) => name).join();
    if (rows[0] && Object.keys(rows[0]).join() !== names) problems.push(`${date}: its columns are not ${names}`);
    const found = compareRows(lived, date, rows, { entry, manifest });
    if (found.problem !== undefined) problems.push(found.problem);
    else if (found.isLast) equal += 1;
    else stale += 1;
  }
  problems.push(
    ...judgeMoved(lived, drops, held),
    ...(await judgeLag(lived)),
    ...judgeRuns(runs),
    ...(await judgeMails(lived)),
  );
  return { problems, equal, stale, lost };
}

/** A row that has another date now is in the drop of that date alone, unless its old date is held with all that it had. */
function judgeMoved(
  { drawn, versions }: Lived,
  drops: ReadonlyMap<string, ReadonlySet<string>>,
  held: ReadonlySet<string>,
): readonly string[] {
  return drawn.dates.flatMap((date) => {
    if (held.has(date)) return [];
    const now = versions(date).at(-1)?.rows;
    const gone = [...(drops.get(date) ?? [])].filter((id) => !now?.has(id));
    return [...drops].flatMap(([other, ids]) => {
      const both = other === date || !drawn.cared.has(date) ? [] : gone.filter((id) => ids.has(id));
      return both.length > 0 ? [`${date} keeps ${both.length} rows that are of ${other} now (${both[0]})`] : [];
    });
  });
}

/**
 * No revision of a date that lagged was available without a row of the time that it covers, and runs that found it lagging
 * held it and said why.
 */
async function judgeLag({ drawn, behind, runs, storeFolder, versions }: Lived): Promise<readonly string[]> {
  const date = drawn.lagging;
  if (date === undefined) return [];
  const last = [...(versions(date).at(-1)?.rows.values() ?? [])];
  const revisions = await readRevisions(storeFolder, date);
  return [
    ...revisions.flatMap(({ condition, revision, rows, through, degraded_reason: reason }) => {
      const all = last.filter(({ time }) => through === undefined || String(time) < `${date} ${through}`).length;
      if (condition === 'available' && (through === undefined ? rows !== all : rows < all))
        return [`${date} r${revision} is whole with ${rows} of ${all} rows until ${through ?? 'its end'}`];
      return condition === 'available' || reason ? [] : [`${date} r${revision} is ${condition} without a reason`];
    }),
    ...runs.flatMap(({ isCalm, finished, startMs }, run) => {
      if (!isCalm || !behind?.has(run)) return [];
      const held = finished?.result?.held.find((one) => one.date === date);
      if (held !== undefined && LAG_REASON.test(held.reason)) return [];
      return [`${date} lagged, and the run of ${new Date(startMs).toISOString()} says ${held?.reason ?? 'nothing'}`];
    }),
  ];
}

const LAG_REASON = /\d rows from [\d:]+ on|the source has (no rows|rows until)/;

/** Manifests of all revisions of a date. */
async function readRevisions(storeFolder: string, date: string): Promise<readonly Sealed[]> {
  const records = join(storeFolder, '_flowdrop/trades');
  const old = join(records, `history/session=${date}`);
  const folders = (await readdir(old).catch(() => [])).map((revision) => join(old, revision));
  const read = [...folders, join(records, `session=${date}`)].map((folder) =>
    readJson<Sealed>(join(folder, 'manifest.json')),
  );
  return (await Promise.all(read)).flatMap((manifest) => manifest ?? []);
}

/** A date that is not sealed must be written down as lost, and a run must have said so; unless it never had any rows. */
function explainLoss({ drawn, runs }: Lived, date: string, entry: Entry | undefined, rows: number): string | undefined {
  // A source whose last rows are gone does not show that the session is over, and the run says so.
  const isHeld = runs.some(
    ({ finished, isCalm }) => isCalm && finished?.result?.held.some((held) => held.date === date),
  );
  if (drawn.cared.has(date) && rows > 0 && !isHeld)
    return `${date} is not sealed (${entry?.condition}), although a run without trouble came before it expired`;
  // A dataset begins with the first run that the store let write: before it there is nothing to record a loss in.
  const isBefore = runs.every(
    (run) => run.startMs > expiresAt(date) || (run.requests === 0 && run.finished?.result === undefined),
  );
  if (isBefore && entry === undefined) return undefined;
  const isSaid = runs.some(({ finished }) => finished?.result?.lost.includes(date));
  const isKnown = entry?.condition === 'expired' || (rows === 0 && entry?.condition === 'missing');
  if (!isKnown) return `${date} is not sealed, and its condition is ${entry?.condition}`;
  return isSaid || rows === 0 ? undefined : `${date} was lost, and no run said so`;
}

interface Comparison {
  readonly problem?: string | undefined;
  /** Whether it is the last state of the source. */
  readonly isLast: boolean;
}

function compareRows(
  lived: Lived,
  date: string,
  rows: readonly ApiRow[],
  { entry, manifest }: { readonly entry: Entry | undefined; readonly manifest: Sealed },
): Comparison {
  const { drawn } = lived;
  const versions = lived.versions(date);
  const drop = new Map(rows.map((row) => [String(row['id']), row]));
  if (drop.size !== rows.length)
    return { problem: `${date}: ${rows.length - drop.size} rows repeat an id`, isLast: false };
  const last = versions.at(-1);
  const isPresent = last !== undefined && last.rows.size > 0;
  const difference = last && describeDifference(drop, last, versions);
  if (manifest.held !== undefined) {
    // It has the rows of an earlier state, and the source was in one that is no news to it.
    // The rows of an evening that come while it is held are not taken over either.
    const isOfDay = ({ time }: TradeRow) => String(time) >= `${date} 09:30` && String(time) < `${date} 16:15`;
    const isState = versions.some((version) => describeDifference(drop, version, versions, isOfDay) === undefined);
    const isDoubtful = versions.some(({ rows: has }) => {
      const gone = [...drop.keys()].filter((id) => !has.has(id)).length;
      return gone > FEW_GONE || [...has.keys()].filter((id) => !drop.has(id)).length > FEW_REPEATED;
    });
    if (isState && isDoubtful && entry?.condition === 'degraded') return { isLast: false };
    return { problem: `${date} is held (${manifest.held}), without a reason: ${difference}`, isLast: false };
  }
  const isLast = last !== undefined && difference === undefined;
  const { audit } = entry ?? {};
  const fail = (problem: string) => ({ problem: `${date} ${problem}`, isLast });
  const audited = `its last audit is ${JSON.stringify(audit)}`;
  // What an audit said of a state that is gone is of no use when the date expires.
  const isClaimed = audit?.result === 'equal' && Date.parse(audit.audited_at) > (last?.atMs ?? 0) + CLOCK_MS;
  if (isLast) {
    const kept = [...drop.keys()].filter((id) => !last.rows.has(id)).length;
    if (kept > 0 && isClaimed) return fail(`keeps ${kept} rows that the source no longer has, and ${audited}`);
    // An empty answer is no proof that rows are gone.
    if (!drawn.cared.has(date) || !isPresent) return { isLast };
    if (kept > 0 && audit?.result !== 'differs') return fail(`keeps ${kept} rows, and ${audited}`);
    const isFresh = Date.parse(manifest.sealed_at) >= last.atMs - CLOCK_MS;
    return kept > 0 || isFresh || isClaimed ? { isLast } : fail(`equals the source, and ${audited}`);
  }
  if (drawn.cared.has(date) && isPresent) return fail(`differs from the source: ${difference}`);
  const isDue = dueAt(manifest.sealed_at, manifest.degraded_reason);
  if (!versions.some((version) => describeDifference(drop, version, versions, isDue) === undefined))
    return fail(`equals no state that the source was in: ${difference}`);
  const isSeen = dueAt(audit?.audited_at ?? manifest.sealed_at, manifest.degraded_reason);
  const unseen = last && describeDifference(drop, last, versions, isSeen);
  return isClaimed && isPresent && unseen ? fail(`differs, and ${audited}: ${difference}`) : { isLast };
}

/** Which rows were visible at an instant: not those to come, and of a degraded date not those that it says have left. */
function dueAt(instant: string, reason = ''): (values: TradeRow) => boolean {
  const until = formatWallClock(Date.parse(instant) - DELAY_MS);
  const since = /rows before (\S+ \S+) \(exchange/.exec(reason)?.[1] ?? '';
  return ({ time }) => String(time) < until && String(time) >= since;
}

/** Rows that the source had once may be there as they were: a job may keep them, and says so. */
function describeDifference(
  drop: ReadonlyMap<string, ApiRow>,
  { rows }: Version,
  all: readonly Version[],
  isDue: (values: TradeRow) => boolean = () => true,
): string | undefined {
  const lacking = [...rows].filter(([id, values]) => !drop.has(id) && isDue(values)).map(([id]) => id);
  const altered = [...rows]
    .filter(([id, values]) => drop.has(id) && !isSameRow(drop.get(id), values))
    .map(([id]) => id);
  const extra = [...drop].filter(
    ([id, row]) => !rows.has(id) && !all.some((version) => isSameRow(row, version.rows.get(id))),
  );
  const parts = [
    ...(lacking.length > 0 ? [`${lacking.length} rows lack (${lacking.slice(0, 2).join(', ')})`] : []),
    ...(altered.length > 0 ? [`${altered.length} rows have other values (${altered.slice(0, 2).join(', ')})`] : []),
    ...(extra.length > 0 ? [`${extra.length} rows are not of the source (${extra[0]?.[0]})`] : []),
  ];
  return parts.length === 0 ? undefined : parts.join(', ');
}

function isSameRow(row: ApiRow | undefined, values: TradeRow | undefined): boolean {
  if (row === undefined || values === undefined) return false;
  return Object.entries(row).every(([name, value]) => values[name] === value);
}

/** A run without trouble ends without an error, and no run fails without knowing why. */
function judgeRuns(runs: readonly SimulatedRun[]): readonly string[] {
  return runs.flatMap(({ finished, isCalm, startMs }) => {
    if (finished === undefined) return [];
    const at = new Date(startMs).toISOString();
    const { error, shortfall } = finished;
    const isUnknown = error !== undefined && (error as { code?: unknown }).code === undefined;
    if (isUnknown)
      return [`the run of ${at} failed without knowing why: ${error instanceof Error ? error.stack : String(error)}`];
    const isBad = error !== undefined || shortfall === 'failed';
    return isCalm && isBad
      ? [`the run of ${at} had no trouble and failed: ${String(error ?? JSON.stringify(finished))}`]
      : [];
  });
}

/** What explains that a mail is repeated under its Message-ID: nobody knows whether it was taken. */
const UNKNOWN_FATE = /^(died|stopped|store-|mail-lost-answer)/;
const isUnsure = (faults: readonly string[]) => faults.some((fault) => UNKNOWN_FATE.test(fault));

async function judgeMails(lived: Lived): Promise<readonly string[]> {
  const { drawn, mails, runs, storeFolder } = lived;
  const problems: string[] = [];
  const byId = new Map<string, TakenInRun[]>();
  for (const mail of mails) byId.set(mail.messageId, [...(byId.get(mail.messageId) ?? []), mail]);
  for (const [id, taken] of byId) {
    if (new Set(taken.map(({ to }) => to)).size > 1) problems.push(`${id} went to several recipients`);
    for (const { run } of taken.slice(0, -1))
      if (!isUnsure(runs[run]?.faults ?? []))
        problems.push(`${id} went ${taken.length} times, and nothing in run ${run} explains it`);
  }
  const revisions = new Map<string, Set<string>>();
  for (const { to, messageId } of mails) {
    const { revision } = readMailed(messageId);
    const key = `${to} ${revision}`;
    revisions.set(key, (revisions.get(key) ?? new Set()).add(messageId));
  }
  for (const [key, ids] of revisions)
    if (ids.size > 1) problems.push(`${key} was mailed under ${ids.size} Message-IDs`);
  for (const date of drawn.dates) {
    const of = (revision: number) => mails.filter(({ messageId }) => messageId.includes(`.${date}.r${revision}.`));
    for (const { revision, held, changes } of await readRevisions(storeFolder, date)) {
      const before = Array.from({ length: revision - 1 }, (_, index) => of(index + 1)).flat();
      // Who got no mail of the date that the worker knows of gets that of the held revision: its rows are the sealed ones.
      const isNews = ({ to }: { to: string }) =>
        revision === 1 || before.some((sent) => sent.to === to && !isUnsure(runs[sent.run]?.faults ?? []));
      if (held !== undefined && of(revision).some(isNews))
        problems.push(`${date} r${revision} was mailed, and it is held: ${held}`);
      if (changes?.extended && of(revision).some((sent) => before.some((one) => one.to === sent.to)))
        problems.push(`${date} r${revision} was mailed again, and only has rows of other segments more`);
    }
    // A date whose rows stay as they are has one mail, whenever its rows come.
    for (const to of lived.versions(date).length > 1 ? [] : drawn.recipients) {
      const ids = new Set(
        mails.flatMap((mail) => (mail.to === to && readMailed(mail.messageId).date === date ? [mail.messageId] : [])),
      );
      if (drawn.evenings !== undefined && ids.size > 1)
        problems.push(`${to} got ${ids.size} mails of ${date}, whose rows did not change`);
    }
  }
  const first = findFirstDue(lived);
  for (const date of drawn.dates) {
    const at = join(storeFolder, `_flowdrop/trades/session=${date}/manifest.json`);
    const manifest = await readJson<{ sealed_at: string; revision: number }>(at);
    if (manifest === undefined || first === undefined || date < first) continue;
    const sealedMs = Date.parse(manifest.sealed_at);
    const isDue = runs.some(({ isCalm, endMs, startMs }) => isCalm && endMs >= sealedMs && startMs < expiresAt(date));
    if (!isDue) continue;
    for (const to of drawn.recipients)
      if (!mails.some((mail) => mail.to === to && readMailed(mail.messageId).date === date))
        problems.push(`${to} got no mail of ${date}`);
  }
  return problems;
}

/** The first run that can mail does so of the newest date that is sealed then; earlier dates are nobody's news. */
function findFirstDue({ runs, mails }: Lived): string | undefined {
  const mailed = mails.map(({ messageId }) => readMailed(messageId).date);
  const calm = runs.findIndex(({ isCalm }) => isCalm);
  const sealed = runs.slice(0, calm + 1).flatMap(({ finished }) => finished?.result?.dates ?? []);
  const newest = sealed.filter(({ status }) => status === 'sealed').map(({ date }) => date);
  return [...mailed, ...newest.sort().slice(-1)].sort()[0];
}

async function readJson<T>(path: string): Promise<T | undefined> {
  const text = await readFile(path, 'utf8').catch(() => undefined);
  return text === undefined ? undefined : (JSON.parse(text) as T);
}
