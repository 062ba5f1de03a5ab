/**
 * What the sealed sessions of a dataset show about another session of it: manifests, counts and summaries of some kilobytes,
 * read from the store, each once a run. Nothing is asked of the source.
 */
import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isHalfDay, previousSessions } from '../../calendar/session.ts';
import { makeFolder } from '../../core/atomic-file.ts';
import { parquetFile } from '../../engine/literal.ts';
import type { SqlJob } from '../../job/job.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Manifest } from '../../ledger/manifest.ts';
import { lastTradeSecond } from '../../plan/session-end.ts';
import { type LikeSession, shapeTimes } from '../../plan/session-habit.ts';
import type { ExportRun } from '../../run/run.ts';
import { readShape } from '../../seal/summary.ts';

/** Sessions that are looked at: a habit is what most of them have. */
const LIKE_SESSIONS = 5;
/** Sessions before a date among which they are looked for. */
const REACH = 15;

/** The check that a sealed date failed which may have lacked its end. */
export const SESSION_END_CHECK = 'session-end';

type LikeDeps = Pick<ExportRun, 'ledger' | 'engine' | 'state' | 'calendar' | 'signal'>;

export class LikeSessions {
  readonly #deps: LikeDeps;
  /** As manifests name it. */
  readonly #filter: string | undefined;
  readonly #sealed: Set<string>;
  readonly #known = new Map<string, Promise<LikeSession | undefined>>();

  /** @param sealed dates that have a manifest */
  constructor(deps: LikeDeps, job: SqlJob, sealed: ReadonlySet<string>) {
    this.#deps = deps;
    this.#filter = ('where' in job.source && job.source.where) || undefined;
    this.#sealed = new Set(sealed);
  }

  /** This run has sealed the date. */
  add(date: string): void {
    this.#sealed.add(date);
    this.#known.delete(date);
  }

  /** Complete sessions before a date that ended at the same hour, newest first. */
  async before(date: string): Promise<readonly LikeSession[]> {
    const { calendar } = this.#deps;
    const isHalf = isHalfDay(date, calendar);
    const dates = previousSessions(date, REACH, calendar)
      .filter((other) => other < date && this.#sealed.has(other) && isHalfDay(other, calendar) === isHalf)
      .reverse();
    const found: LikeSession[] = [];
    // At once as many as there lack, which is all of them but where some are no measure.
    for (let at = 0; at < dates.length && found.length < LIKE_SESSIONS; ) {
      const next = dates.slice(at, at + LIKE_SESSIONS - found.length);
      at += next.length;
      const read = await Promise.all(next.map((other) => this.#readOnce(other)));
      found.push(...read.flatMap((session) => session ?? []));
    }
    return found;
  }

  async #readOnce(date: string): Promise<LikeSession | undefined> {
    const known = this.#known.get(date) ?? this.#read(date);
    this.#known.set(date, known);
    return await known;
  }

  /** @returns `undefined` for a session that is no measure: incomplete, in doubt itself, or of other rows */
  async #read(date: string): Promise<LikeSession | undefined> {
    const manifest = await this.#deps.ledger.validManifest(date);
    if (manifest === undefined || manifest.filter !== this.#filter) return undefined;
    // What is held for its new rows has its old ones, which were complete.
    const isHeldWhole = manifest.held !== undefined && manifest.held === manifest.degraded_reason;
    if (manifest.condition !== 'available' && !isHeldWhole) return undefined;
    if (manifest.checks.some(({ check, passed }) => check === SESSION_END_CHECK && !passed)) return undefined;
    const { engine, calendar } = this.#deps;
    const lastSecond = lastTradeSecond(date, calendar);
    const times = await this.#withFile(manifest, manifest.counts, async (path) => {
      const cells = await engine.rows<{ readonly second: number; readonly n: number }>(
        `SELECT second, toFloat64(rows) AS n FROM ${parquetFile(path, 'symbol Nullable(String), second Int32, rows Int64')} WHERE symbol IS NULL`,
      );
      return shapeTimes(
        cells.map(({ second, n }) => ({ second, rows: n })),
        lastSecond,
      );
    });
    const shape = await this.#withFile(manifest, manifest.summary, async (path) => readShape(engine, manifest, path));
    return { date, times, symbols: shape?.symbols };
  }

  /** A file that is lost or damaged says nothing; `verify` tells of it. */
  async #withFile<T>(
    manifest: Manifest,
    name: string | null | undefined,
    act: (path: string) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const file = manifest.files.find(({ filename }) => filename === name);
    if (file === undefined) return undefined;
    const { ledger, state, signal } = this.#deps;
    const path = `${state.drop(manifest.date)}.like-${file.filename}`;
    await makeFolder(dirname(path));
    try {
      return (await ledger.fetchFile(manifest.date, file, path, signal)) ? await act(path) : undefined;
    } finally {
      await rm(path, { force: true });
    }
  }
}

/** Manifests of the complete dates nearest to a date, on either side. */
export async function readNeighbours(ledger: Ledger, date: string): Promise<readonly Manifest[]> {
  const apart = (other: string) => Math.abs(Date.parse(other) - Date.parse(date));
  const sealed = await ledger.dates();
  const nearest = sealed.filter((other) => other !== date).sort((a, b) => apart(a) - apart(b));
  const found: Manifest[] = [];
  for (const other of nearest.slice(0, LIKE_SESSIONS)) {
    const manifest = await ledger.validManifest(other);
    if (manifest?.condition === 'available') found.push(manifest);
  }
  return found;
}
