/**
 * The slow path for a page that the engine, or the check before it, refused: reads its rows one by one from their
 * bytes, judges each by the rules of its columns, and rewrites acceptable rows as plain JSON. A bad row is kept whole,
 * with its original bytes and the texts by which a source counts it. Invariant: every row of the page is either good or
 * bad, and no value changes. Pure.
 */
import { isUtf8 } from 'node:buffer';
import { tryParseJson } from '../core/atomic-file.ts';
import { listMembers, type Member, type RowBytes, skipNested, walkRows } from '../core/json-bytes.ts';
import { NO_NUMBERS } from '../engine/row-hash.ts';
import { isColumnName, type RuleContext } from './column-rule.ts';
import { judgeValue, SAME_TEXT, type Token } from './column-value.ts';

/** What the quarantine keeps of a page. */
export interface JudgedLine {
  /**
   * A bad row; values of a column that arrived in another form; nulls where the contract allows none, as they came or
   * because a value could not be read; or one row of a place with a value that differs from the source's own.
   */
  readonly kind: 'bad' | 'form' | 'null' | 'changed';
  /** Empty if the whole row is bad. */
  readonly column: string;
  /** Completes the sentence that begins with the column's name; empty for nulls that came as such. */
  readonly reason: string;
  rows: number;
  /** Of a bad row: its bytes, and its dollars, null if it has no readable premium. */
  readonly premium?: number | null;
  readonly encoding?: 'json' | 'base64';
  readonly row?: string;
  /** The bytes of the columns by which rows are counted, as in the source; null for a null. */
  readonly [key: `hex_${string}`]: string | null;
}

export interface JudgedPage {
  /** The good rows, one per line. */
  readonly data: Buffer;
  readonly good: number;
  readonly lines: readonly JudgedLine[];
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
  const rows = places.flatMap(({ start, end: until }) => judge.take(page.subarray(start, until)) ?? []);
  const { lines, fields } = judge;
  return {
    data: Buffer.from(rows.join('\n')),
    good: rows.length,
    lines: [...lines.values()],
    fields: [...fields],
  };
}

class RowJudge {
  readonly lines = new Map<string, JudgedLine>();
  readonly fields = new Set<string>();
  readonly #context: RuleContext;
  readonly #counted: readonly string[];

  constructor(context: RuleContext, counted: readonly string[]) {
    this.#context = context;
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
    for (const name of values.keys()) this.fields.add(fieldColumn(name));
    const parts: string[] = [];
    const notes: Pick<JudgedLine, 'kind' | 'column' | 'reason'>[] = [];
    for (const column of this.#context.job.source.columns) {
      const { name, type, oftenNull } = column;
      const token = values.get(name) ?? { kind: 'absent', text: '' };
      const judgement = judgeValue(token, column, this.#context);
      if ('reason' in judgement) return this.#refuse(bytes, members, name, judgement.reason);
      const { json, form, unread = '' } = judgement;
      if (form !== undefined) notes.push({ kind: 'form', column: name, reason: form });
      const isNull = json === 'null' && (unread !== '' || !oftenNull);
      if (isNull) notes.push({ kind: 'null', column: name, reason: unread });
      const isMark = name === 'updated_timestamp';
      // The hash of a number that is none is that of a null; a null adds nothing to an update mark.
      const isSame = isNull
        ? isMark || (type === 'double' && NO_NUMBERS.includes(token.text))
        : form === undefined || (!isMark && SAME_TEXT.has(form));
      if (!isSame) notes.push({ kind: 'changed', column: name, reason: '' });
      parts.push(`${JSON.stringify(name)}:${json}`);
      values.delete(name);
    }
    for (const [name, { kind, text }] of values) {
      parts.push(`${JSON.stringify(fieldColumn(name))}:${JSON.stringify(kind === 'null' ? '' : text)}`);
    }
    for (const note of notes) this.#note(note, bytes, members);
    return `{${parts.join(',')}}`;
  }

  #refuse(bytes: Buffer, members: readonly Member[] | undefined, column: string, reason: string): undefined {
    const encoding = isUtf8(bytes) ? 'json' : 'base64';
    const row = bytes.toString(encoding === 'json' ? 'utf8' : 'base64');
    const premium = this.#readPremium(bytes, members);
    const line = { kind: 'bad', column, reason, rows: 1, premium, encoding, row } as const;
    this.lines.set(`bad ${this.lines.size}`, { ...line, ...this.#readKeys(bytes, members) });
  }

  #readPremium(bytes: Buffer, members: readonly Member[] | undefined): number | null {
    const member = members?.find(({ name }) => name === 'premium');
    const token = member && readToken(bytes.subarray(member.start, member.end));
    const column = this.#context.job.source.columns.find(({ name, type }) => name === 'premium' && type === 'double');
    const judgement = token && column && judgeValue(token, column, this.#context);
    return judgement === undefined || 'reason' in judgement ? null : (JSON.parse(judgement.json) as number | null);
  }

  /** Counts the rows with the same note; of changed values, those of one symbol and time. */
  #note(note: Pick<JudgedLine, 'kind' | 'column' | 'reason'>, bytes: Buffer, members: readonly Member[]): void {
    const keys = note.kind === 'changed' ? this.#readKeys(bytes, members) : {};
    const { hex_id: _, hex_updated_timestamp: __, ...place } = keys;
    const key = JSON.stringify([note, place]);
    const line = this.lines.get(key) ?? { ...note, rows: 0, ...keys };
    line.rows += 1;
    this.lines.set(key, line);
  }

  #readKeys(bytes: Buffer, members: readonly Member[] | undefined): Record<`hex_${string}`, string | null> {
    return Object.fromEntries(
      this.#counted.map((name) => {
        const member = members?.find((found) => found.name === name);
        const text = member && readText(bytes.subarray(member.start, member.end));
        return [`hex_${name}`, text?.toString('hex') ?? null];
      }),
    );
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
