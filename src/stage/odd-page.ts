/**
 * A page with rows that are not plain, in SQL. Plain rows are found by one regular expression, and staged as they are; the
 * others are split into their members and judged by the rules of their columns. Invariant: every row is either good or bad,
 * and no value changes; a bad row is kept whole, with its bytes and the texts by which a source counts it. Also says which
 * page is plain, and what is wrong with one that the engine cannot read. Pure text.
 */
import { isUtf8 } from 'node:buffer';
import { describeError, Fault } from '../core/errors.ts';
import { type JsonRows, type RowShape, walkRows } from '../core/json-bytes.ts';
import { COLUMN_TYPES, nullMark } from '../engine/column-types.ts';
import { localFile, quoteIdentifier, quoteString } from '../engine/literal.ts';
import { NO_NUMBERS } from '../engine/row-hash.ts';
import type { Job, JobColumn } from '../job/job.ts';
import {
  askedText,
  HAS_HALF,
  isEmptyKept,
  isModelColumn,
  matches,
  plainPattern,
  READ,
  RULES,
  type RuleContext,
  SURROGATES,
} from './column-rule.ts';
import { type StagedTable, WINDOW_COLUMN } from './stage-table.ts';

const list = (values: readonly string[]) => `[${values.join(', ')}]`;
const texts = (values: readonly string[]) => list(values.map(quoteString));
const plural = (name: string) => `${name}s`;

const SPACE = '[ \\t\\r\\n]*';
const STRING = '"(?:[^"\\\\]|\\\\.)*"';
/** Depth of objects and lists in a row: the engine's regular expressions cannot count brackets. */
const MAX_DEPTH = 8;
const NESTED = Array.from({ length: MAX_DEPTH }).reduce<string>(
  (inner) => `[{\\[](?:${STRING}|[^"{}\\[\\]]|${inner})*[}\\]]`,
  '[^\\s\\S]',
);
const SCALAR = '[^ \\t\\r\\n,"{}\\[\\]]+';
const member = (name: string, value: string) => `${SPACE}${name}${SPACE}:${SPACE}${value}${SPACE}`;
const MEMBER = member(STRING, `(?:${STRING}|${NESTED}|${SCALAR})`);
const EACH_MEMBER = member(`(${STRING})`, `(${STRING}|${NESTED}|${SCALAR})`);
const ROW = `^\\{(?:${SPACE}|${MEMBER}(?:,${MEMBER})*)\\}$`;
const WHOLE_STRING = '^"(?:[^"\\\\]|\\\\(?:["\\\\/bfnrt]|u[0-9a-fA-F]{4}))*"$';

/** The engine's own check takes surrogates. */
const IS_TEXT = matches('row', `^[^${SURROGATES}]*$`);
/** The text of a value: decoded if it is quoted, otherwise its own bytes. */
const TEXT = `multiIf(NOT startsWith(raw, '"'), raw, position(raw, '\\\\') = 0, substring(raw, 2, length(raw) - 2), ${HAS_HALF}, '\uFFFD', simpleJSONExtractString(concat('{"v":', raw, '}'), 'v'))`;
/** Long integers are JSON, but not for the engine. */
const IS_NO_JSON = `multiIf(startsWith(raw, '"'), position(raw, '\\\\') > 0 AND NOT ${matches('raw', WHOLE_STRING)}, ${matches('raw', '^[{\\[]')}, NOT isValidJSON(replaceRegexpAll(raw, '[0-9]{9,}', '1')), false)`;
/** Forms that do not change the source's hashes: it stores numbers and times by value, not as text. */
const SAME_FORMS = ['other number form', 'other time form', ''];

/** A field outside the contract and its column: a name that no column may have gets a prefix. */
export interface ExtraField {
  readonly name: string;
  readonly column: string;
}

/**
 * Names that begin with an underscore belong to the engine (`_file`, `_part`, `_row_exists`) or to the stage; an empty name
 * cannot be a column.
 */
export function listExtraFields({ source }: RuleContext['job'], names: readonly string[]): readonly ExtraField[] {
  return names
    .filter((name) => !source.columns.some((column) => column.name === name))
    .map((name) => ({ name, column: name === '' || name.startsWith('_') ? `field${name}` : name }));
}

export interface OddRows {
  /** Rows of the page as the engine sees them; those judged; and those of them that are bad. */
  readonly rows: number;
  readonly odd: number;
  readonly refused: number;
  readonly noted: number;
  /** Names of the fields of the rows that were judged. */
  readonly fields: readonly string[];
  /** A bad row. */
  readonly first: readonly [column: string, reason: string, row: string];
}

export class OddPage {
  readonly #stage: StagedTable;
  readonly #window: string;
  /** Quoted names of temporary tables. */
  readonly rows: string;
  readonly odd: string;

  /** @param window text @param odd name for its tables */
  constructor(stage: StagedTable, window: string, odd: string) {
    this.#stage = stage;
    this.#window = window;
    this.rows = quoteIdentifier(`${odd}_rows`);
    this.odd = quoteIdentifier(odd);
  }

  #asked(column: JobColumn): string | undefined {
    const text = askedText(column, this.#stage);
    return text === '' ? this.#window.split(' ')[0] : text;
  }

  /** Splits the page into rows. @param path of the file with it @param fields of its first row */
  load(path: string, fields: readonly string[]): string {
    const isPlain = matches('row', plainRow(this.#stage, fields));
    return `CREATE TEMPORARY TABLE ${this.rows} ENGINE = Memory AS SELECT row, ${isPlain} AS is_plain FROM ${localFile(path, 'JSONAsString', 'row String')}`;
  }

  /**
   * The table of odd rows. `vals`: by column, null for a null. `bad`: column and reason of a bad row, otherwise empty. `notes`:
   * kind, column and reason of what is recorded of the row. `keys`: what a source counts it by, in hexadecimal digits.
   */
  create(): string {
    return `CREATE TEMPORARY TABLE ${this.odd} (row String, is_text Bool, nth UInt64, names Array(String), tokens Array(String), vals Array(Nullable(String)), bad Tuple(String, String), notes Array(Tuple(String, String, String)), keys Array(Nullable(String)), premium Nullable(Float64)) ENGINE = Memory`;
  }

  judge(counted: readonly string[]): string {
    const { columns } = this.#stage.job.source;
    const types = [...new Set(columns.map(({ type }) => type))];
    const each = (what: 'value' | 'reason') =>
      `multiIf(${types.map((type) => `c.type = '${type}', ifNull(${RULES[type][what]}, '')`).join(', ')}, '')`;
    const at = (name: string) => columns.findIndex((column) => column.name === name) + 1;
    const hasPremium = columns.some(({ name, type }) => name === 'premium' && type === 'double');
    const isKey = ({ name }: JobColumn) => name === 'premium' || counted.includes(name);
    // Of a row that cannot be split, only what it is counted by is looked for.
    const found = columns.map((column) =>
      isKey(column) ? `simpleJSONExtractRaw(compact, ${quoteString(column.name)})` : "''",
    );
    const split = `SELECT row, ${IS_TEXT} AS is_text, ${matches('row', ROW)} AS is_row,
      if(is_row, extractAllGroupsVertical(row, ${quoteString(`(?s)${EACH_MEMBER}`)}), []) AS members,
      arrayMap(raw -> ${TEXT}, arrayMap(m -> m[1], members)) AS names, arrayMap(m -> m[2], members) AS tokens,
      arrayFirstIndex(nth -> nth > 1, arrayEnumerateUniq(names)) AS twice, arrayFirstIndex(raw -> ${IS_NO_JSON}, tokens) AS unread,
      multiIf(NOT is_text, ('', 'is not UTF-8'), NOT is_row, ('', 'is not JSON'), twice > 0, (names[twice], 'appears twice'), unread > 0, (names[unread], 'is not JSON'), ('', '')) AS unfit,
      replaceRegexpAll(row, ${quoteString(`"${SPACE}:${SPACE}`)}, '":') AS compact,
      if(is_row, arrayMap(name -> tokens[indexOf(names, name)], ${texts(columns.map(({ name }) => name))}), ${list(found)}) AS raws,
      arrayMap(raw -> ${TEXT}, raws) AS ts
      FROM ${this.rows} WHERE NOT is_plain`;
    const facts = columns.map((column) => {
      const { form, more } = RULES[column.type];
      const asked = this.#asked(column);
      const flags = [column.nullable, column.oftenNull, isEmptyKept(column, this.#stage), isModelColumn(column)];
      const known = [column.name, column.type, form, more?.(column, this.#stage) ?? ''].map(quoteString);
      return `(${[...known, ...flags, asked === undefined ? 'NULL' : quoteString(asked)].join(', ')})`;
    });
    const cs = `CAST(${list(facts)}, 'Array(Tuple(name String, type String, form String, more String, nullable Bool, often Bool, keeps Bool, model Bool, asked Nullable(String)))')`;
    const reads = Object.entries(READ).map(([name, sql], index, all) => {
      const before = ['t', ...all.slice(0, index).map(([earlier]) => earlier)];
      return `arrayMap((${before.join(', ')}) -> ${sql}, ${before.map(plural).join(', ')}) AS ${plural(name)}`;
    });
    const read = ['c', 'raw', 't', ...Object.keys(READ)];
    const judged = `SELECT *, ${cs} AS cs, ${reads.join(', ')},
      arrayMap((${read.join(', ')}) -> (${each('value')}, if(match(raw, '^[{[]'), 'is an object or a list', ${each('reason')})), ${read.map(plural).join(', ')}) AS verdicts
      FROM (${split})`;
    // The hash of a number that is none is that of a null; a null adds nothing to an update mark.
    const isOther = `NOT (c.name = 'updated_timestamp' OR (c.type = 'double' AND has(${texts(NO_NUMBERS)}, t)))`;
    const celled = `SELECT *, arrayMap((c, raw, t, verdict) -> multiIf(
      raw NOT IN ('', 'null') AND (raw != '""' OR c.keeps), multiIf(
        verdict.2 != '', (NULL, if(c.model, 'null', 'bad'), verdict.2, ${isOther}),
        verdict.1 != t, (verdict.1, 'form', c.form, c.name = 'updated_timestamp' OR NOT has(${texts(SAME_FORMS)}, c.form)),
        (t, '', '', false)),
      isNotNull(c.asked), (c.asked, '', '', false),
      NOT c.nullable, (NULL, 'bad', multiIf(raw = 'null', 'is null', raw = '', 'is missing', 'is empty'), false),
      c.often, (NULL, '', '', false),
      (NULL, 'null', '', ${isOther})), cs, raws, ts, verdicts) AS cells, arrayFirstIndex(cell -> cell.2 = 'bad', cells) AS refused
      FROM (${judged})`;
    return `INSERT INTO ${this.odd} SELECT row, is_text, rowNumberInAllBlocks() AS nth, names, tokens,
      arrayMap(cell -> cell.1, cells) AS vals,
      multiIf(unfit.2 != '', unfit, refused > 0, (cs[refused].name, cells[refused].3), ('', '')) AS bad,
      if(bad.2 != '', [('bad', bad.1, bad.2)], arrayConcat(
        arrayFilter(note -> note.1 != '', arrayMap((c, cell) -> (cell.2, c.name, cell.3), cs, cells)),
        arrayMap(c -> ('changed', c.name, ''), arrayFilter((c, cell) -> cell.4, cs, cells)))) AS notes,
      ${list(counted.map((name) => `if(raws[${at(name)}] IN ('', 'null'), NULL, hex(ts[${at(name)}]))`))} AS keys,
      ${hasPremium ? `toFloat64OrNull(vals[${at('premium')}])` : "CAST(NULL, 'Nullable(Float64)')"} AS premium
      FROM (${celled})`;
  }

  describe(): string {
    return `SELECT (SELECT count() FROM ${this.rows}) AS rows, count() AS odd, countIf(bad.2 != '') AS refused, sum(length(notes)) AS noted,
      arrayDistinct(arrayFlatten(groupUniqArrayIf(names, NOT (bad.1 = '' AND bad.2 != '')))) AS fields, argMinIf((bad.1, bad.2, row), nth, bad.2 != '') AS first
      FROM ${this.odd}`;
  }

  /** Notes of one kind, column and reason are one line; of a changed value, those of one symbol and time; of a bad row, itself. */
  record(quarantine: string, counted: readonly string[], good: number): string {
    const keys = counted.map((name) => quoteIdentifier(`hex_${name}`));
    const place = counted.flatMap((name, index) =>
      ['id', 'updated_timestamp'].includes(name) ? [] : [`keys[${index + 1}]`],
    );
    const window = quoteString(this.#window);
    const isBad = "note.1 = 'bad'";
    const lines = `SELECT note.1 AS k, note.2 AS c, note.3 AS r, count() AS n, any(if(${isBad}, premium, NULL)) AS p,
      any(if(${isBad}, if(is_text, 'json', 'base64'), '')) AS e, any(if(${isBad}, if(is_text, row, base64Encode(row)), '')) AS b,
      any(if(note.1 IN ('bad', 'changed'), keys, [])) AS ks
      FROM ${this.odd} ARRAY JOIN notes AS note GROUP BY note, if(${isBad}, nth + 1, 0), if(note.1 = 'changed', ${list([...place, "''"])}, [])`;
    const page = `SELECT 'page' AS k, '' AS c, '' AS r, ${good} AS n, NULL AS p, '' AS e, '' AS b, [] AS ks`;
    return `INSERT INTO ${quarantine} (${[WINDOW_COLUMN, 'kind', 'column', 'reason', 'rows', 'premium', 'encoding', 'row', ...keys].join(', ')})
      SELECT ${[window, 'k', 'c', 'r', 'n', 'p', 'e', 'b', ...keys.map((_, index) => `ks[${index + 1}]`)].join(', ')} FROM (${lines} UNION ALL ${page})`;
  }

  insert(fields: readonly ExtraField[]): string {
    const { table, job } = this.#stage;
    const { columns } = job.source;
    const bytes = (name: string) => `simpleJSONExtractRaw(row, ${quoteString(name)})`;
    const plain = (name: string) => `if(${bytes(name)} = 'null', '', trim(BOTH '"' FROM ${bytes(name)}))`;
    const other = (name: string) =>
      `arrayMap(raw -> if(raw = 'null', '', ${TEXT}), [tokens[indexOf(names, ${quoteString(name)})]])[1]`;
    const select = (value: (column: JobColumn, index: number) => string, extra: (name: string) => string) =>
      `SELECT ${[...columns.map((column, index) => stagedValue(column, value(column, index))), ...fields.map(({ name }) => extra(name)), quoteString(this.#window)].join(', ')}`;
    const plainValue = (column: JobColumn) => {
      if (COLUMN_TYPES[column.type].staged !== 'String') return bytes(column.name);
      const asked = this.#asked(column);
      const found = plain(column.name);
      return asked === undefined ? found : `if(${found} = '', ${quoteString(asked)}, ${found})`;
    };
    const names = [...columns.map(({ name }) => name), ...fields.map(({ column }) => column), WINDOW_COLUMN];
    return `INSERT INTO ${table} (${names.map(quoteIdentifier).join(', ')})
      ${select(plainValue, plain)} FROM ${this.rows} WHERE is_plain
      UNION ALL ${select((_, index) => `vals[${index + 1}]`, other)} FROM ${this.odd} WHERE bad.2 = ''`;
  }
}

/** A row with these fields in this order, all values plain, and no space between them. */
function plainRow(context: RuleContext, fields: readonly string[]): string {
  const { columns } = context.job.source;
  const isWhole = columns.every(
    (column) => fields.includes(column.name) || askedText(column, context) !== undefined || column.oftenNull,
  );
  if (!isWhole || !fields.every(isPlainName)) return '^$';
  const members = fields.map((field) => {
    const column = columns.find(({ name }) => name === field);
    return `"${field.replaceAll('.', '[.]')}":${column ? plainPattern(column, context) : `(?:"[^"\\\\${SURROGATES}]*"|${SCALAR})`}`;
  });
  return `^\\{${members.join(',')}\\}$`;
}

/** @param text SQL of the value's text, null for a null */
function stagedValue({ type, oftenNull }: JobColumn, text: string): string {
  const { staged } = COLUMN_TYPES[type];
  return `ifNull(${staged === 'String' ? text : `to${staged}OrNull(${text})`}, ${nullMark(type, oftenNull)})`;
}

/** Bytes of a row in a message. */
const SHOWN_BYTES = 200;
const BACKSLASH = 0x5c;
/** Escapes that the engine reads differently from JSON, or as half of a character. */
const STRANGE_ESCAPE = /\\(?:[^"\\/bfnrtu]|u(?![0-9a-fA-F]{4})|u[dD][89a-fA-F])/;

/** A name that needs no escapes, and that the engine has no column of its own for. */
const isPlainName = (name: string) => /^[A-Za-z][\w.-]*$/.test(name);

/** What the rows of a page have in common. @throws SyntaxError if it is not an array of objects */
function readShape({ data, shape }: JsonRows): RowShape {
  if (shape !== undefined) return shape;
  const walked = walkRows(Buffer.from(data.buffer, data.byteOffset, data.byteLength), 0);
  if (walked.end === data.length) return walked.shape;
  throw new SyntaxError(`the rows end at byte ${walked.end} of ${data.length}`);
}

/**
 * Whether the engine can safely read the bytes of a page: they contain nothing that it would read as another value, and
 * lack no field that it would not miss. SQL checks the values, in the statement that stages them.
 * @throws SyntaxError if it is not an array of objects
 */
export function isPlainPage({ source }: Pick<Job, 'source'>, page: JsonRows): boolean {
  const { data, firstRow = {} } = page;
  const { fractions, texts, hasNested } = readShape(page);
  if (!isUtf8(data)) return false;
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  // Without escaped backslashes, of which the second would look like the start of an escape.
  if (bytes.includes(BACKSLASH) && STRANGE_ESCAPE.test(bytes.toString('latin1').replaceAll('\\\\', ''))) return false;
  if (hasNested) return false;
  const names = Object.keys(firstRow);
  if (!names.every(isPlainName)) return false;
  // A snapshot guarantees no fields: an absent one is null.
  if (source.kind === 'snapshots') return true;
  const places = new Map(names.map((name, place) => [name, place]));
  // The engine reads 12.0 as 12, but does not count such values; and it rounds a number in quotes.
  return source.columns.every(({ name, type }) => {
    const place = places.get(name);
    return place !== undefined && !(type === 'int32' && (fractions.has(place) || texts[place]));
  });
}

/** Requires every column in the rows; the error lists missing and present fields. @throws Fault `PAGE_REFUSED` */
export function assertColumns(
  { source }: Pick<Job, 'source'>,
  date: string,
  window: string,
  present: readonly string[],
): void {
  // A snapshot guarantees no fields: an absent one is null, or known from the request.
  if (source.kind === 'snapshots') return;
  const missing = source.columns.filter(({ name }) => !present.includes(name));
  if (missing.length === 0) return;
  throw new Fault(
    'PAGE_REFUSED',
    `${date} ${window}: the answer has no field ${missing.map((column) => `"${column.name}"`).join(', ')}; it has ${present.join(', ')}`,
    { hint: 'For your own SQL, list its output columns under `types`, `time` and `split`.' },
  );
}

export function refusePage(date: string, window: string, page: JsonRows, cause: unknown): Fault {
  const head = Buffer.from(page.data.subarray(0, SHOWN_BYTES)).toString('utf8');
  // Without the engine's stack of functions.
  const [reason = ''] = describeError(cause).split(/: while executing|\n/);
  return new Fault(
    'PAGE_REFUSED',
    `${date} ${window}: the answer's rows do not fit the columns: ${reason}; it begins ${head}`,
    {
      cause,
      hint: 'This page was not kept. If the API has changed a type, report it; otherwise run again.',
    },
  );
}

/** `"oi" is not a whole number: {"id":...`. @param column empty: the row itself */
export function describeBadRow(column: string, reason: string, row: string): string {
  const what = column === '' ? `a row ${reason}` : `"${column}" ${reason}`;
  return `${what}: ${Buffer.from(row).subarray(0, SHOWN_BYTES).toString('utf8')}`;
}
