/**
 * What chaos runs read and where it goes, as data. A scenario says which kinds of trouble can hit it; `trouble.ts` draws
 * from them.
 */
import type { SourceSettings } from './source.ts';

/** Kinds of trouble. A run has a few of them, drawn from those of its scenario. */
export const KINDS = [
  /** What networks, gateways and overloaded servers do to answers of the API. */
  'network',
  /** SIGKILL at any moment. */
  'kill',
  /** Rows move while the date is fetched. */
  'rows-appear',
  'rows-vanish',
  'rows-change',
  'rows-replaced',
  /** Cells that are null, no number, no text, no time. */
  'odd-cells',
  /** The API's `Date` header is wrong. */
  'api-clock',
  /** The worker's own clock is wrong. */
  'own-clock',
  /** Errors, resets and broken bodies of the S3 server; or connections to it that break at random bytes. */
  's3-answers',
  's3-bytes',
  /** 200 to what was not done: copies with an error in the body, puts that are not kept. */
  'store-lies',
  /** Between two attempts an object is gone. */
  'store-loses',
  /** The folder of the store is an empty one for a while. */
  'unmount',
  /** Full and read-only disks. */
  'disk',
  /** A worker is stopped, another one takes over after its lease, and the first one wakes up. */
  'sleep',
  /** The mail server puts off, breaks off, loses its answer. */
  'mail-server',
  /** Rows are there twice for a while, or get another date, when their own is sealed. */
  'rows-twice',
  'rows-redated',
  /** The source lacks the last minutes, from the first request of an attempt on or from a later one. */
  'lag',
  'failover',
] as const;
export type Kind = (typeof KINDS)[number];

export interface Scenario {
  readonly name: string;
  readonly source: SourceSettings;
  readonly api: 'historical' | 'portal';
  readonly store: 'directory' | 's3';
  /** The disk that is broken, where `disk` is among the kinds. */
  readonly disk?: 'state' | 'store';
  readonly workers: 1 | 2;
  /** Whether the job has a report. */
  readonly mails?: true;
  /** What may be drawn. */
  readonly kinds: readonly Kind[];
  /** What always is. */
  readonly always?: Kind;
  /** Takes long: left out of the bounded version. */
  readonly isLong?: true;
}

const GENERATED = { data: 'generated', order: 'time' } as const;
const REAL = { data: 'real', order: 'time' } as const;
const TABLE = { data: 'table', order: 'time' } as const;
/** So little may be read at once that a day is counted in parts, along the symbols. */
const TABLE_BY_SYMBOL = { data: 'table', order: 'symbol', scanLimit: 2_000 } as const;

const EVERYWHERE: readonly Kind[] = ['network', 'kill', 'api-clock', 'own-clock'];
const MOVES: readonly Kind[] = ['rows-appear', 'rows-vanish', 'rows-change', 'rows-replaced', 'odd-cells'];
/** Where nothing is mailed: a date that changes after it was sealed has more than one mail. */
const DOUBTED: readonly Kind[] = ['rows-twice', 'rows-redated', 'lag', 'failover'];
const FOLDER: readonly Kind[] = ['unmount', 'store-loses'];
const S3: readonly Kind[] = ['s3-answers', 'store-lies', 'store-loses'];
const MAILS: readonly Kind[] = ['sleep', 'mail-server'];

/** One worker, unless it says otherwise, that asks the historical entry point and writes into a folder. */
function describe(
  name: string,
  source: SourceSettings,
  kinds: readonly Kind[],
  more: Partial<Scenario> = {},
): Scenario {
  return { name, source, api: 'historical', store: 'directory', workers: 1, kinds, ...more };
}

export const SCENARIOS: readonly Scenario[] = [
  describe('table', TABLE, [...EVERYWHERE, ...MOVES, ...DOUBTED, ...FOLDER, 'sleep']),
  describe('table-portal', TABLE, [...EVERYWHERE, ...MOVES, ...DOUBTED], { api: 'portal' }),
  describe('table-symbol', TABLE_BY_SYMBOL, [...EVERYWHERE, ...MOVES, ...DOUBTED]),
  describe('table-portal-symbol', TABLE_BY_SYMBOL, [...EVERYWHERE, ...MOVES, ...DOUBTED], { api: 'portal' }),
  describe('table-s3', TABLE, [...EVERYWHERE, ...MOVES, ...DOUBTED, ...S3, 'sleep'], { store: 's3' }),
  describe('mails', TABLE, [...EVERYWHERE, ...MOVES, ...FOLDER, ...MAILS], { mails: true }),
  describe('mails-s3', TABLE, ['kill', ...S3, ...MAILS], { store: 's3', mails: true }),
  describe('generated-day', GENERATED, [...EVERYWHERE, ...FOLDER, 'sleep']),
  describe('real-day', REAL, [...EVERYWHERE, ...FOLDER]),
  describe('ordered-by-symbol', { data: 'generated', order: 'symbol' }, EVERYWHERE),
  describe('portal', GENERATED, [...EVERYWHERE, ...FOLDER], { api: 'portal' }),
  describe('real-portal-s3', REAL, [...EVERYWHERE, ...S3], { api: 'portal', store: 's3' }),
  describe('scan-limit', { data: 'real', order: 'symbol', scanLimit: 2_500 }, EVERYWHERE),
  describe('scan-limit-s3', { ...GENERATED, scanLimit: 20_000 }, [...EVERYWHERE, ...S3], { store: 's3' }),
  describe('s3-answers', GENERATED, [...EVERYWHERE, ...S3, 'sleep'], { store: 's3', always: 's3-answers' }),
  describe('s3-bytes', REAL, [...EVERYWHERE, 's3-bytes'], { store: 's3', always: 's3-bytes' }),
  describe('disk-of-store', GENERATED, EVERYWHERE, { disk: 'store', always: 'disk' }),
  describe('disk-of-state', REAL, EVERYWHERE, { disk: 'state', always: 'disk' }),
  describe('disk-of-state-s3', GENERATED, [...EVERYWHERE, ...S3], { store: 's3', disk: 'state', always: 'disk' }),
  describe('two-workers', REAL, [...EVERYWHERE, ...FOLDER], { workers: 2 }),
  describe('two-workers-s3', GENERATED, [...EVERYWHERE, ...S3], { store: 's3', workers: 2 }),
  describe('upload-in-parts', { data: 'large', order: 'time' }, [...EVERYWHERE, 's3-bytes', 'store-lies'], {
    ...{ store: 's3', always: 's3-bytes', isLong: true },
  }),
];
