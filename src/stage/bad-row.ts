/**
 * The slow path for a page that the engine, or the check before it, refused: reads its rows one by one from their
 * bytes, judges each by the rules of its columns, and rewrites acceptable rows as plain JSON. A bad row is kept whole,
 * with its original bytes and the texts by which a source counts it. Invariant: every row of the page is either good or
 * bad, and no value changes. Pure.
 */
import { isUtf8 } from 'node:buffer';
import { listMembers, type Member, type RowBytes, skipNested, walkRows } from '../core/json-bytes.ts';
import { tryParseJson } from '../core/json-file.ts';
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

export interface ColumnNulls {
  readonly column: string;
  readonly rows: number;
}

export interface JudgedPage {
  /** The good rows, one per line. */
  readonly data: Buffer;
  readonly good: number;
  readonly bad: readonly BadRow[];
  readonly rewritten: readonly RewrittenValues[];
  /** Nulls in columns where the contract allows none. */
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
  readonly #columns: readonly { readonly name: string; readonly judge: JudgeValue; readonly oftenNull: boolean }[];
  readonly #counted: readonly string[];
  readonly #bad: BadRow[] = [];
  readonly #forms = new Map<string, { column: string; form: string; rows: number }>();
  readonly #nulls = new Map<string, number>();
  readonly #changed = new Map<string, ChangedPlace>();
  readonly #fields = new Set<string>();

  constructor(context: RuleContext, counted: readonly string[]) {
    this.#columns = context.job.source.columns.map((column) => ({
      name: column.name,
      judge: judgeColumn(column, context),
      oftenNull: column.oftenNull,
    }));
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
    const nulls: string[] = [];
    for (const { name, judge, oftenNull } of this.#columns) {
      const judgement = judge(values.get(name) ?? { kind: 'absent', text: '' });
      if ('reason' in judgement) return this.#refuse(bytes, members, name, judgement.reason);
      if (judgement.form !== undefined) forms.push({ column: name, form: judgement.form });
      if (judgement.json === 'null' && !oftenNull) nulls.push(name);
      parts.push(`${JSON.stringify(name)}:${judgement.json}`);
      values.delete(name);
    }
    for (const [name, { kind, text }] of values) {
      parts.push(`${JSON.stringify(fieldColumn(name))}:${JSON.stringify(kind === 'null' ? '' : text)}`);
    }
    for (const form of forms) this.#count(form.column, form.form);
    const rewritten = forms.filter(({ form }) => !SAME_TEXT.has(form)).map(({ column }) => column);
    this.#noteChanged([...nulls, ...rewritten], bytes, members);
    for (const name of nulls) this.#nulls.set(name, (this.#nulls.get(name) ?? 0) + 1);
    return `{${parts.join(',')}}`;
  }

  describe(lines: readonly string[]): JudgedPage {
    return {
      data: Buffer.from(lines.join('\n')),
      good: lines.length,
      bad: this.#bad,
      rewritten: [...this.#forms.values()],
      changed: [...this.#changed.values()],
      nulls: [...this.#nulls].map(([column, rows]) => ({ column, rows })),
      fields: [...this.#fields],
    };
  }

  #refuse(bytes: Buffer, members: readonly Member[] | undefined, column: string, reason: string): undefined {
    this.#bad.push({ column, reason, bytes, keys: this.#readKeys(bytes, members) });
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

  #count(column: string, form: string): void {
    const key = `${column} ${form}`;
    const counted = this.#forms.get(key) ?? { column, form, rows: 0 };
    counted.rows += 1;
    this.#forms.set(key, counted);
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
