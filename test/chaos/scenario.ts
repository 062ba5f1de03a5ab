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

export const SCENARIOS: readonly Scenario[] = [
  {
    name: 'table',
    ...{ source: TABLE, api: 'historical', store: 'directory', workers: 1 },
    kinds: [...EVERYWHERE, ...MOVES, ...DOUBTED, ...FOLDER, 'sleep'],
  },
  {
    name: 'table-portal',
    ...{ source: TABLE, api: 'portal', store: 'directory', workers: 1 },
    kinds: [...EVERYWHERE, ...MOVES, ...DOUBTED],
  },
  {
    name: 'table-symbol',
    ...{ source: TABLE_BY_SYMBOL, api: 'historical', store: 'directory', workers: 1 },
    kinds: [...EVERYWHERE, ...MOVES, ...DOUBTED],
  },
  {
    name: 'table-portal-symbol',
    ...{ source: TABLE_BY_SYMBOL, api: 'portal', store: 'directory', workers: 1 },
    kinds: [...EVERYWHERE, ...MOVES, ...DOUBTED],
  },
  {
    name: 'table-s3',
    ...{ source: TABLE, api: 'historical', store: 's3', workers: 1 },
    kinds: [...EVERYWHERE, ...MOVES, ...DOUBTED, ...S3, 'sleep'],
  },
  {
    name: 'mails',
    ...{ source: TABLE, api: 'historical', store: 'directory', workers: 1, mails: true },
    kinds: [...EVERYWHERE, ...MOVES, ...FOLDER, ...MAILS],
  },
  {
    name: 'mails-s3',
    ...{ source: TABLE, api: 'historical', store: 's3', workers: 1, mails: true },
    kinds: ['kill', ...S3, ...MAILS],
  },
  {
    name: 'generated-day',
    ...{ source: GENERATED, api: 'historical', store: 'directory', workers: 1 },
    kinds: [...EVERYWHERE, ...FOLDER, 'sleep'],
  },
  {
    name: 'real-day',
    ...{ source: REAL, api: 'historical', store: 'directory', workers: 1 },
    kinds: [...EVERYWHERE, ...FOLDER],
  },
  {
    name: 'ordered-by-symbol',
    ...{ source: { data: 'generated', order: 'symbol' }, api: 'historical', store: 'directory', workers: 1 },
    kinds: EVERYWHERE,
  },
  {
    name: 'portal',
    ...{ source: GENERATED, api: 'portal', store: 'directory', workers: 1 },
    kinds: [...EVERYWHERE, ...FOLDER],
  },
  {
    name: 'real-portal-s3',
    ...{ source: REAL, api: 'portal', store: 's3', workers: 1 },
    kinds: [...EVERYWHERE, ...S3],
  },
  {
    name: 'scan-limit',
    source: { data: 'real', order: 'symbol', scanLimit: 2_500 },
    ...{ api: 'historical', store: 'directory', workers: 1 },
    kinds: EVERYWHERE,
  },
  {
    name: 'scan-limit-s3',
    source: { data: 'generated', order: 'time', scanLimit: 20_000 },
    ...{ api: 'historical', store: 's3', workers: 1 },
    kinds: [...EVERYWHERE, ...S3],
  },
  {
    name: 's3-answers',
    ...{ source: GENERATED, api: 'historical', store: 's3', workers: 1 },
    kinds: [...EVERYWHERE, ...S3, 'sleep'],
    always: 's3-answers',
  },
  {
    name: 's3-bytes',
    ...{ source: REAL, api: 'historical', store: 's3', workers: 1 },
    kinds: [...EVERYWHERE, 's3-bytes'],
    always: 's3-bytes',
  },
  {
    name: 'disk-of-store',
    ...{ source: GENERATED, api: 'historical', store: 'directory', disk: 'store', workers: 1 },
    kinds: EVERYWHERE,
    always: 'disk',
  },
  {
    name: 'disk-of-state',
    ...{ source: REAL, api: 'historical', store: 'directory', disk: 'state', workers: 1 },
    kinds: EVERYWHERE,
    always: 'disk',
  },
  {
    name: 'disk-of-state-s3',
    ...{ source: GENERATED, api: 'historical', store: 's3', disk: 'state', workers: 1 },
    kinds: [...EVERYWHERE, ...S3],
    always: 'disk',
  },
  {
    name: 'two-workers',
    ...{ source: REAL, api: 'historical', store: 'directory', workers: 2 },
    kinds: [...EVERYWHERE, ...FOLDER],
  },
  {
    name: 'two-workers-s3',
    ...{ source: GENERATED, api: 'historical', store: 's3', workers: 2 },
    kinds: [...EVERYWHERE, ...S3],
  },
  {
    name: 'upload-in-parts',
    ...{ source: { data: 'large', order: 'time' }, api: 'historical', store: 's3', workers: 1, isLong: true },
    kinds: [...EVERYWHERE, 's3-bytes', 'store-lies'],
    always: 's3-bytes',
  },
];
