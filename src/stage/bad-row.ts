/**
 * The slow path for a page that the engine, or the check before it, refused: reads its rows one by one from their
 * bytes, judges each by the rules of its columns, and rewrites acceptable rows as plain JSON. A bad row is kept whole,
 * with its original bytes and the texts by which a source counts it. Invariant: every row of the page is either good or
 * bad, and no value changes. Pure.
 */
import { isUtf8 } from 'node:buffer';
import { listMembers, type Member, type RowBytes, skipNested, walkRows } from '../core/json-bytes.ts';
import { tryParseJson } from '../core/json-file.ts';
import { NO_NUMBERS } from '../engine/row-hash.ts';
import type { JobColumn } from '../job/job.ts';
import { isColumnName, type RuleContext } from './column-rule.ts';
import { type JudgeValue, judgeColumn, SAME_TEXT, type Token } from './column-value.ts';

/** The bytes of the columns by which rows are counted, as in the source; null for a null. */
export type RowKeys = ReadonlyMap<string, Buffer | null>;

export interface BadRow {
  /** Column with the error; empty if the whole row is bad. */
  readonly column: string;
  /** Completes the sentence that begins with the column's name. */
  readonly reason: string;
  readonly bytes: Buffer;
  readonly keys: RowKeys;
  /** Dollars; null if the row has no readable premium. */
  readonly premium: number | null;
}

/** Number of values of a column that arrived in another form. */
export interface RewrittenValues {
  readonly column: string;
  readonly form: string;
  readonly rows: number;
}

/** A value that differs from the source's own, and the location of its row. */
interface ChangedPlace {
  readonly column: string;
  readonly keys: RowKeys;
}

/** Nulls of a column: as they came, or values that could not be read. */
export interface ColumnNulls {
  readonly column: string;
  /** Completes the sentence that begins with the column's name; absent for nulls that came as such. */
  readonly reason?: string | undefined;
  readonly rows: number;
}

export interface JudgedPage {
  /** The good rows, one per line. */
  readonly data: Buffer;
  readonly good: number;
  readonly bad: readonly BadRow[];
  readonly rewritten: readonly RewrittenValues[];
  /** Values that could not be read, and nulls in columns where the contract allows none. */
  readonly nulls: readonly ColumnNulls[];
  /**
   * Rows whose values differ from the source's own, because they were null or rewritten: the keys of one row for each
   * column, symbol and time.
   */
  readonly changed: readonly ChangedPlace[];
  /** Names of all fields of the rows, in order of first appearance. */
  readonly fields: readonly string[];
}

/** @param data a JSON array of objects @param counted columns by which rows are counted @throws SyntaxError */
export function judgePage(data: Uint8Array, context: RuleContext, counted: readonly string[]): JudgedPage {
  const page = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const places: RowBytes[] = [];
  const { end } = walkRows(page, 0, (row) => places.push(row));
  if (end !== page.length) throw new SyntaxError(`the rows end at byte ${end} of ${page.length}`);
  const judge = new RowJudge(context, counted);
  const lines = places.flatMap(({ start, end: until }) => judge.take(page.subarray(start, until)) ?? []);
  return judge.describe(lines);
}

class RowJudge {
  readonly #columns: readonly (Pick<JobColumn, 'name' | 'type' | 'oftenNull'> & { readonly judge: JudgeValue })[];
  readonly #counted: readonly string[];
  readonly #bad: BadRow[] = [];
  readonly #forms = new Tally();
  readonly #nulls = new Tally();
  readonly #changed = new Map<string, ChangedPlace>();
  readonly #fields = new Set<string>();

  constructor(context: RuleContext, counted: readonly string[]) {
    this.#columns = context.job.source.columns.map((column) => ({ ...column, judge: judgeColumn(column, context) }));
    this.#counted = counted;
  }

  /** The row as plain JSON; `undefined` for a bad one. */
  take(bytes: Buffer): string | undefined {
    const members = tryListMembers(bytes);
    if (!isUtf8(bytes)) return this.#refuse(bytes, members, '', 'is not UTF-8');
    if (members === undefined) return this.#refuse(bytes, members, '', 'is not JSON');
    const values = new Map<string, Token>();
    for (const { name, start, end } of members) {
      if (values.has(name)) return this.#refuse(bytes, members, name, 'appears twice');
      const token = readToken(bytes.subarray(start, end));
      if (token === undefined) return this.#refuse(bytes, members, name, 'is not JSON');
      values.set(name, token);
    }
    for (const name of values.keys()) this.#fields.add(fieldColumn(name));
    const parts: string[] = [];
    const forms: { column: string; form: string }[] = [];
    const nulls: { column: string; unread: string }[] = [];
    const changed: string[] = [];
    for (const { name, type, judge, oftenNull } of this.#columns) {
      const judgement = judge(values.get(name) ?? { kind: 'absent', text: '' });
      if ('reason' in judgement) return this.#refuse(bytes, members, name, judgement.reason);
      const { json, form, unread = '' } = judgement;
      if (form !== undefined) forms.push({ column: name, form });
      const isNull = json === 'null' && (unread !== '' || !oftenNull);
      if (isNull) nulls.push({ column: name, unread });
      const isMark = name === 'updated_timestamp';
      // The hash of a number that is none is that of a null; a null adds nothing to an update mark.
      const isSame = isNull
        ? isMark || (type === 'double' && NO_NUMBERS.includes(values.get(name)?.text ?? ''))
        : form === undefined || (!isMark && SAME_TEXT.has(form));
      if (!isSame) changed.push(name);
      parts.push(`${JSON.stringify(name)}:${json}`);
      values.delete(name);
    }
    for (const [name, { kind, text }] of values) {
      parts.push(`${JSON.stringify(fieldColumn(name))}:${JSON.stringify(kind === 'null' ? '' : text)}`);
    }
    for (const { column, form } of forms) this.#forms.add(column, form);
    for (const { column, unread } of nulls) this.#nulls.add(column, unread);
    this.#noteChanged(changed, bytes, members);
    return `{${parts.join(',')}}`;
  }

  describe(lines: readonly string[]): JudgedPage {
    return {
      data: Buffer.from(lines.join('\n')),
      good: lines.length,
      bad: this.#bad,
      rewritten: this.#forms.list().map(({ column, text, rows }) => ({ column, form: text, rows })),
      changed: [...this.#changed.values()],
      nulls: this.#nulls.list().map(({ column, text, rows }) => ({ column, reason: text || undefined, rows })),
      fields: [...this.#fields],
    };
  }

  #refuse(bytes: Buffer, members: readonly Member[] | undefined, column: string, reason: string): undefined {
    const premium = this.#readPremium(bytes, members);
    this.#bad.push({ column, reason, bytes, keys: this.#readKeys(bytes, members), premium });
  }

  #readPremium(bytes: Buffer, members: readonly Member[] | undefined): number | null {
    const member = members?.find(({ name }) => name === 'premium');
    const token = member && readToken(bytes.subarray(member.start, member.end));
    const judge = this.#columns.find(({ name, type }) => name === 'premium' && type === 'double')?.judge;
    const judgement = token && judge?.(token);
    return judgement === undefined || 'reason' in judgement ? null : (JSON.parse(judgement.json) as number | null);
  }

  #noteChanged(columns: readonly string[], bytes: Buffer, members: readonly Member[]): void {
    if (columns.length === 0) return;
    const keys = this.#readKeys(bytes, members);
    const place = [...keys].flatMap(([name, key]) =>
      name === 'id' || name === 'updated_timestamp' ? [] : [key?.toString('hex')],
    );
    for (const column of columns) this.#changed.set([column, ...place].join(' '), { column, keys });
  }

  #readKeys(bytes: Buffer, members: readonly Member[] | undefined): RowKeys {
    return new Map(
      this.#counted.map((name): [string, Buffer | null] => {
        const member = members?.find((found) => found.name === name);
        return [name, member ? readText(bytes.subarray(member.start, member.end)) : null];
      }),
    );
  }
}

/** Counts rows by column and a text. */
class Tally {
  readonly #counts = new Map<string, { readonly column: string; readonly text: string; rows: number }>();

  add(column: string, text: string): void {
    const key = `${column} ${text}`;
    const counted = this.#counts.get(key) ?? { column, text, rows: 0 };
    counted.rows += 1;
    this.#counts.set(key, counted);
  }

  list(): readonly { readonly column: string; readonly text: string; readonly rows: number }[] {
    return [...this.#counts.values()];
  }
}

/**
 * The column for a field outside the contract: the field's own name, if a column may have it, otherwise a prefixed
 * name; rows with such a name are not plain.
 */
function fieldColumn(name: string): string {
  return isColumnName(name) ? name : `field${name}`;
}

function tryListMembers(bytes: Buffer): readonly Member[] | undefined {
  try {
    return listMembers(bytes);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** @returns `undefined` if it is neither a JSON value nor a word such as NaN */
function readToken(bytes: Buffer): Token | undefined {
  const text = bytes.toString('utf8');
  if (text.startsWith('"')) {
    const decoded = tryParseJson(escapeControls(text));
    return typeof decoded === 'string' ? { kind: 'text', text: decoded } : undefined;
  }
  if (text === 'null') return { kind: 'null', text };
  if (text === 'true' || text === 'false') return { kind: 'boolean', text };
  if (JSON_NUMBER.test(text)) return { kind: 'number', text };
  if (!/^[{[]/.test(text)) return { kind: 'word', text };
  // Stored unchanged, so it must be complete, but its contents are not read.
  return skipNested(bytes, 0) === bytes.length && tryParseJson(text) !== undefined
    ? { kind: 'nested', text }
    : undefined;
}

/** A raw line break inside a string is not valid JSON, but its meaning is clear. */
function escapeControls(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  return text.replaceAll(/[\u0000-\u001f]/g, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The text of a value in the source's own bytes. */
function readText(bytes: Buffer): Buffer | null {
  const text = bytes.toString('latin1');
  if (text === 'null') return null;
  if (!text.startsWith('"')) return bytes;
  if (!text.includes('\\')) return bytes.subarray(1, -1);
  const decoded = tryParseJson(escapeControls(bytes.toString('utf8')));
  return typeof decoded === 'string' ? Buffer.from(decoded) : bytes;
}
