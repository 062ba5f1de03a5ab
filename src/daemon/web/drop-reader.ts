/**
 * Reads drops by child commands, for whoever looks at their pages. Invariant: a date is read once for all who ask at the
 * same time, and again only after a while, because each reading is a process; a job is one that the daemon knows.
 */
import type { Readable } from 'node:stream';
import type { Clock } from '../../core/clock.ts';
import type { DropDocument, Rows } from '../documents.ts';
import type { DropDetail } from './api-shape.ts';

/** The commands, for a job that the daemon knows. @throws Fault */
export interface DropSource {
  readDrop(job: string, date: string): Promise<DropDocument>;
  queryRows(job: string, sql: string): Promise<Rows>;
  streamDrop(job: string, date: string): Readable;
}

/** A restatement may come at any time, and a person goes back and forth between pages. */
const LIFETIME_MS = 30_000;
const MAX_KNOWN = 50;
/** What a person looks through. */
const SHOWN_ROWS = 20;

interface Known<T> {
  readonly atMs: number;
  readonly value: Promise<T>;
}

export class DropReader {
  readonly #source: DropSource;
  readonly #clock: Clock;
  readonly #known = new Map<string, Known<DropDetail>>();

  constructor(source: DropSource, clock: Clock) {
    this.#source = source;
    this.#clock = clock;
  }

  /** @param withRows also the first rows and the sums by symbol @throws Fault */
  async read(job: string, date: string, withRows: boolean): Promise<DropDetail> {
    const key = JSON.stringify([job, date, withRows]);
    const nowMs = this.#clock.now();
    for (const [old, { atMs }] of this.#known) {
      if (Math.abs(nowMs - atMs) >= LIFETIME_MS || this.#known.size > MAX_KNOWN) this.#known.delete(old);
    }
    const known = this.#known.get(key);
    if (known) return await known.value;
    const value = this.#read(job, date, withRows);
    this.#known.set(key, { atMs: nowMs, value });
    // A failure is not kept: the next one who asks may be luckier.
    value.catch(() => this.#known.delete(key));
    return await value;
  }

  stream(job: string, date: string): Readable {
    return this.#source.streamDrop(job, date);
  }

  async #read(job: string, date: string, withRows: boolean): Promise<DropDetail> {
    const drop = await this.#source.readDrop(job, date);
    if (!withRows || !drop.manifest) return { drop, first_rows: null, sums: null };
    const name = quoteName(drop.dataset);
    const where = `WHERE date = toDate('${date}')`;
    const [rows, sums] = await Promise.all([
      this.#source.queryRows(job, `SELECT * FROM ${name} ${where} LIMIT ${SHOWN_ROWS}`),
      drop.manifest.has_summary ? this.#source.queryRows(job, selectSums(drop.dataset, where)) : null,
    ]);
    return { drop, first_rows: [...rows], sums: sums && [...sums] };
  }
}

function selectSums(dataset: string, where: string): string {
  const sums = ['trades', 'contracts', 'total_premium', 'call_premium', 'put_premium'];
  return `SELECT symbol, ${sums.join(', ')} FROM ${quoteName(`${dataset}_summary`)} ${where} AND symbol != '' ORDER BY total_premium DESC LIMIT ${SHOWN_ROWS}`;
}

function quoteName(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}
