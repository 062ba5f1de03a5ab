/**
 * A single value as JSON has it, judged by its column: taken exactly, taken in another form without loss, or refused
 * with the reason. Numbers stay the text that they came as until they are known to fit. The engine's side of the same
 * rules is `column-rule.ts`. Pure.
 */
import { isDate } from '../calendar/wall-clock.ts';
import type { JobColumn } from '../job/job.ts';
import {
  INSTANT_DIGITS,
  INT32,
  INT64,
  isPartition,
  isWindowed,
  type RuleContext,
  wordsOf,
  YEARS,
} from './column-rule.ts';

/** A value of a row: `text` is what is in quotes, decoded; of all else the bytes as they came. `word`: no JSON, such as NaN. */
export interface Token {
  readonly kind: 'absent' | 'null' | 'text' | 'number' | 'boolean' | 'nested' | 'word';
  readonly text: string;
}

/** `json` is what goes into the stage; `form` says in which other form it came, where it was rewritten without loss. */
type Judgement = { readonly json: string; readonly form?: string | undefined } | { readonly reason: string };

export type JudgeValue = (token: Token) => Judgement;

/** Forms that a source that keeps numbers and times has no trace of. */
export const SAME_TEXT: ReadonlySet<string> = new Set(['other number form', 'other time form']);

const NULL: Judgement = { json: 'null' };
/** A number as people and programs write it, which is more than JSON allows. */
const NUMBER = /^([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d{1,4}))?$/;
const NOT_FINITE = /^[+-]?(?:nan|inf|infinity)$/i;
const TIME = /^(\d{4}-\d{2}-\d{2})[ T](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?(Z|[+-]\d{2}:?\d{2})?$/;
/** The form of a time that windows are cut by: with a space, and with seconds. */
const WINDOWED_TIME = /^(\d{4}-\d{2}-\d{2}) (\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?$/;
const LONE_SURROGATE = /\p{Surrogate}/u;
/** Zeros that an exponent may stand for: beyond it there is no integer that fits. */
const MAX_EXPONENT = 40;

/** Reasons are said after the column's name: `"oi" is not a whole number`. */
export function judgeColumn(column: JobColumn, context: RuleContext): JudgeValue {
  const judge = judgeType(column, context);
  return (token) => {
    const isEmpty = token.kind === 'text' && token.text === '' && !isTextKept(column, context);
    if (token.kind === 'null' || token.kind === 'absent' || isEmpty) {
      if (column.nullable) return NULL;
      return { reason: token.kind === 'null' ? 'is null' : isEmpty ? 'is empty' : 'is missing' };
    }
    if (token.kind === 'nested') return { reason: 'is an object or a list' };
    return judge(token);
  };
}

/** An empty text is a value of its own only of texts, and of snapshots not even of these. */
function isTextKept({ type }: JobColumn, { job }: RuleContext): boolean {
  return type === 'string' && job.source.kind !== 'snapshots';
}

function judgeType(column: JobColumn, context: RuleContext): JudgeValue {
  switch (column.type) {
    case 'string':
      return (token) => judgeText(token, wordsOf(column, context));
    case 'int32':
      return (token) => judgeWhole(token, INT32, 'does not fit into 32 bits');
    case 'int64':
      return (token) => judgeWhole(token, INT64, 'does not fit into 64 bits');
    case 'double':
      return judgeNumber;
    case 'date':
      return (token) => judgeDate(token, isPartition(column, context) ? context.date : undefined);
    case 'wall':
      return (token) => judgeTime(token, isWindowed(column, context) ? WINDOWED_TIME : TIME);
    case 'instant':
      return judgeInstant;
    default:
      return column.type satisfies never;
  }
}

/** Numbers and truth values are texts as they came: JSON of some servers quotes no id. */
function judgeText({ kind, text }: Token, words: readonly string[] | undefined): Judgement {
  if (kind === 'word') return { reason: 'is no JSON' };
  if (LONE_SURROGATE.test(text)) return { reason: 'has half of a character' };
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

/** `12`, `12.0` and `1.2e1` are the same whole number; 12.5 is none. */
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

/** Digits without their last ones, when these are zeros. */
function cutZeros(digits: string, count: number): string | undefined {
  const kept = digits.length - count;
  return kept > 0 && /^0*$/.test(digits.slice(kept)) ? digits.slice(0, kept) : undefined;
}

function judgeNumber({ kind, text }: Token): Judgement {
  if (kind === 'boolean' || !(NUMBER.test(text) || NOT_FINITE.test(text))) return { reason: 'is not a number' };
  const number = Number(text);
  if (!Number.isFinite(number)) return { reason: 'is not a finite number' };
  // JSON's own text of -0 is 0.
  return { json: Object.is(number, -0) ? '-0' : JSON.stringify(number) };
}

/** @param only the date that it must be; `undefined`: any */
function judgeDate({ kind, text }: Token, only: string | undefined): Judgement {
  const day = text.slice(0, 'YYYY-MM-DD'.length);
  const rest = text.slice(day.length);
  const year = Number(day.slice(0, 4));
  const isKnown = kind === 'text' && isDate(day) && year >= YEARS.least && year <= YEARS.most;
  if (!isKnown || !/^(?:[ T]00:00(?::00(?:\.0+)?)?Z?)?$/.test(rest)) return { reason: 'is not a date YYYY-MM-DD' };
  if (only !== undefined && day !== only) return { reason: 'is another date than was asked for' };
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

/** A time whose every part exists; `ms` without its last zeros, `undefined` when it has more digits than three. */
function readTime(text: string, form = TIME) {
  const [, day = '', hours = '', minutes = '', seconds, fraction = '', zone] = form.exec(text) ?? [];
  const year = Number(day.slice(0, 4));
  if (!isDate(day) || year < YEARS.least || year > YEARS.most) return undefined;
  if (Number(hours) > 23 || Number(minutes) > 59 || Number(seconds ?? 0) > 59) return undefined;
  const clock = [hours, minutes, ...(seconds === undefined ? [] : [seconds])].join(':');
  const digits = fraction.replace(/0+$/, '');
  return { day, clock, ms: digits.length > 3 ? undefined : digits, zone };
}

/** Milliseconds since the epoch in digits; or a time, which is UTC when it names no offset. */
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
  // As it came: the source counts it by this text, and the seal reads it so.
  return { json: JSON.stringify(text) };
}
