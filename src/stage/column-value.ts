/**
 * Judges a single JSON value by its column: accepted exactly, accepted in another form without loss, or refused with
 * the reason. Numbers stay text until they are known to fit. `column-rule.ts` has the same rules for the engine. Pure.
 */
import type { DropType } from '../api-contract/trade.ts';
import { isDate } from '../calendar/wall-clock.ts';
import { INSTANT_DIGITS } from '../engine/column-types.ts';
import type { JobColumn } from '../job/job.ts';
import {
  askedText,
  INT32,
  INT64,
  isModelColumn,
  isPartition,
  isWindowed,
  type RuleContext,
  wordsOf,
  YEARS,
} from './column-rule.ts';

/** A value of a row. `text`: decoded if it was quoted, otherwise the original bytes. `word`: not JSON, such as NaN. */
export interface Token {
  readonly kind: 'absent' | 'null' | 'text' | 'number' | 'boolean' | 'nested' | 'word';
  readonly text: string;
}

interface Accepted {
  /** Goes into the stage. */
  readonly json: string;
  /** The form in which the value arrived, if it was rewritten without loss. */
  readonly form?: string | undefined;
  /** Why a value of a model column could not be read, and became null. */
  readonly unread?: string | undefined;
}

type Judgement = Accepted | { readonly reason: string };

/** Forms that do not change the source's hashes: it stores numbers and times by value, not as text. */
export const SAME_TEXT: ReadonlySet<string> = new Set(['other number form', 'other time form']);

const NULL: Judgement = { json: 'null' };
/** A number as people and programs write it; allows more than JSON. */
const NUMBER = /^([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d{1,4}))?$/;
const NOT_FINITE = /^[+-]?(?:nan|inf|infinity)$/i;
const TIME = /^(\d{4}-\d{2}-\d{2})[ T](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?(Z|[+-]\d{2}:?\d{2})?$/;
/** The form of a time by which windows are cut: with a space, and with seconds. */
const WINDOWED_TIME = /^(\d{4}-\d{2}-\d{2}) (\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?$/;
const LONE_SURROGATE = /\p{Surrogate}/u;
/** Maximum zeros from an exponent: with more, no integer fits. */
const MAX_EXPONENT = 40;

/** A reason follows the column's name in messages: `"oi" is not a whole number`. */
export function judgeValue(token: Token, column: JobColumn, context: RuleContext): Judgement {
  const isEmpty = token.kind === 'text' && token.text === '' && !isTextKept(column, context);
  if (token.kind === 'null' || token.kind === 'absent' || isEmpty) {
    const asked = askedText(column, context);
    if (asked !== undefined) return { json: JSON.stringify(asked) };
    if (column.nullable) return NULL;
    return { reason: token.kind === 'null' ? 'is null' : isEmpty ? 'is empty' : 'is missing' };
  }
  const isNested = token.kind === 'nested';
  const judgement = isNested ? { reason: 'is an object or a list' } : JUDGES[column.type](token, column, context);
  return 'reason' in judgement && isModelColumn(column) ? { json: 'null', unread: judgement.reason } : judgement;
}

/** Empty text is a value only in text columns, but not in those of snapshots. */
function isTextKept({ type }: JobColumn, { job }: RuleContext): boolean {
  return type === 'string' && job.source.kind !== 'snapshots';
}

const JUDGES: Readonly<Record<DropType, (token: Token, column: JobColumn, context: RuleContext) => Judgement>> = {
  string: (token, column, context) => judgeText(token, wordsOf(column, context)),
  int32: (token) => judgeWhole(token, INT32, 'does not fit into 32 bits'),
  int64: (token) => judgeWhole(token, INT64, 'does not fit into 64 bits'),
  double: judgeNumber,
  date: (token, column, context) => judgeDate(token, isPartition(column, context) ? context.date : undefined),
  wall: (token, column, context) => judgeTime(token, isWindowed(column, context) ? WINDOWED_TIME : TIME),
  instant: judgeInstant,
};

/** Numbers and booleans become text unchanged: some servers do not quote ids in JSON. */
function judgeText({ kind, text }: Token, words: readonly string[] | undefined): Judgement {
  if (kind === 'word') return { reason: 'is not JSON' };
  if (LONE_SURROGATE.test(text)) return { reason: 'has an incomplete character' };
  const word = text.toUpperCase();
  if (word === text || !words?.includes(word)) return { json: JSON.stringify(text) };
  return { json: JSON.stringify(word), form: 'other case' };
}

function judgeWhole(token: Token, range: { least: bigint; most: bigint }, unfit: string): Judgement {
  const whole = readWhole(token);
  if (whole === undefined) return { reason: 'is not a whole number' };
  if (whole < range.least || whole > range.most) return { reason: unfit };
  const json = String(whole);
  return json === token.text ? { json } : { json, form: 'other number form' };
}

/** `12`, `12.0` and `1.2e1` are the same whole number; 12.5 is not one. */
function readWhole({ kind, text }: Token): bigint | undefined {
  const match = kind === 'boolean' ? undefined : NUMBER.exec(text);
  if (!match) return undefined;
  const [, sign, whole = '', fraction = match[4] ?? '', , exponent = '0'] = match;
  const digits = (whole + fraction).replace(/^0+(?=\d)/, '');
  if (Number(digits) === 0 && /^0+$/.test(digits)) return 0n;
  const zeros = Number(exponent) - fraction.length;
  if (Math.abs(zeros) > MAX_EXPONENT + digits.length) return undefined;
  const scaled = zeros >= 0 ? digits + '0'.repeat(zeros) : cutZeros(digits, -zeros);
  return scaled === undefined ? undefined : BigInt(`${sign === '-' ? '-' : ''}${scaled}`);
}

/** Removes the last `count` digits; `undefined` if they are not all zeros. */
function cutZeros(digits: string, count: number): string | undefined {
  const kept = digits.length - count;
  return kept > 0 && /^0*$/.test(digits.slice(kept)) ? digits.slice(0, kept) : undefined;
}

function judgeNumber({ kind, text }: Token): Judgement {
  if (kind === 'boolean' || !(NUMBER.test(text) || NOT_FINITE.test(text))) return { reason: 'is not a number' };
  const number = Number(text);
  if (!Number.isFinite(number)) return { reason: 'is not a finite number' };
  // `JSON.stringify(-0)` gives 0.
  return { json: Object.is(number, -0) ? '-0' : JSON.stringify(number) };
}

/** @param only the required date; `undefined`: any */
function judgeDate({ kind, text }: Token, only: string | undefined): Judgement {
  const day = text.slice(0, 'YYYY-MM-DD'.length);
  const rest = text.slice(day.length);
  const year = Number(day.slice(0, 4));
  const isKnown = kind === 'text' && isDate(day) && year >= YEARS.least && year <= YEARS.most;
  if (!isKnown || !/^(?:[ T]00:00(?::00(?:\.0+)?)?Z?)?$/.test(rest)) return { reason: 'is not a date YYYY-MM-DD' };
  if (only !== undefined && day !== only) return { reason: 'is not the requested date' };
  return { json: JSON.stringify(day), ...(rest === '' ? {} : { form: 'date with a time of zero' }) };
}

function judgeTime({ kind, text }: Token, form: RegExp): Judgement {
  const read = kind === 'text' ? readTime(text, form) : undefined;
  if (read === undefined || read.zone !== undefined) return { reason: 'is not a time YYYY-MM-DD HH:MM:SS' };
  if (read.ms === undefined) return { reason: 'has more digits than milliseconds' };
  const { day, clock, ms } = read;
  const time = `${day} ${clock}${ms === '' ? '' : `.${ms.padEnd(3, '0')}`}`;
  return { json: JSON.stringify(time), ...(time === text ? {} : { form: 'other time form' }) };
}

/** A time whose parts are all valid; `ms` has no trailing zeros, and is `undefined` for more than three digits. */
function readTime(text: string, form = TIME) {
  const [, day = '', hours = '', minutes = '', seconds, fraction = '', zone] = form.exec(text) ?? [];
  const year = Number(day.slice(0, 4));
  if (!isDate(day) || year < YEARS.least || year > YEARS.most) return undefined;
  if (Number(hours) > 23 || Number(minutes) > 59 || Number(seconds ?? 0) > 59) return undefined;
  const clock = [hours, minutes, ...(seconds === undefined ? [] : [seconds])].join(':');
  const digits = fraction.replace(/0+$/, '');
  return { day, clock, ms: digits.length > 3 ? undefined : digits, zone };
}

/** Milliseconds since the epoch in digits; or a time, which is UTC if it names no offset. */
function judgeInstant(token: Token): Judgement {
  const { kind, text } = token;
  if (kind === 'number' || (kind === 'text' && NUMBER.test(text))) {
    const whole = readWhole(token);
    if (whole === undefined || whole < 0n || whole >= 10n ** BigInt(INSTANT_DIGITS)) {
      return { reason: 'is not an instant in milliseconds' };
    }
    const digits = String(whole);
    return { json: JSON.stringify(digits), ...(digits === text ? {} : { form: 'other number form' }) };
  }
  const read = kind === 'text' ? readTime(text) : undefined;
  if (read === undefined) return { reason: 'is not an instant' };
  const { day, clock, ms, zone = 'Z' } = read;
  if (ms === undefined) return { reason: 'has more digits than milliseconds' };
  const time = clock.length === 5 ? `${clock}:00` : clock;
  const epochMs = Date.parse(`${day}T${time}.${ms.padEnd(3, '0')}${zone.replace(/^([+-]\d{2}):?/, '$1:')}`);
  if (!(epochMs >= 0)) return { reason: 'is not an instant in milliseconds' };
  // Unchanged: the source counts it by this text, and the seal can read it.
  return { json: JSON.stringify(text) };
}
