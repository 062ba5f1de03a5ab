/**
 * The columns of a table of the archive: how each is read from the files of drops, and how it is answered, as a type of
 * its own or as the API's text. Invariant: plain columns stay plain, so that conditions on them reach the statistics
 * and bloom filters of the files. Pure.
 */
import { answerType, TRADE_COLUMNS, type TradeColumn } from '../api-contract/trade.ts';
import { quoteIdentifier } from '../engine/literal.ts';
import type { Manifest } from '../ledger/manifest.ts';

/** `typed`: dates are dates, null is null. `api`: the texts that the historical API answers. */
export type AnswerTypes = 'typed' | 'api';

export interface ArchiveColumn {
  readonly name: string;
  /** Type used to read the column; `undefined` for the date, which is not read. */
  readonly readAs: string | undefined;
  /** Expression over the columns read. */
  readonly value: string;
  /** Type of the value, without LowCardinality. */
  readonly type: string;
}

/** The date in a file's path, as a column of the files: see `tables.ts`. */
export const PATH_DATE = 'path_date_of_drop';
/** The exchange's wall clock: without a zone, which the engine takes as the session's, UTC. */
const WALL = 'DateTime64(6)';
const INSTANT = "DateTime64(6, 'UTC')";
const NUMBERS: Readonly<Record<string, string>> = { INT32: 'Int32', INT64: 'Int64', DOUBLE: 'Float64' };
const DATE_TYPE = 'INT32/DATE';

/** Columns that single trades have, and no other drops. */
const TRADE_MARKS: readonly string[] = ['id', 'time'];

/** Whether drops with these columns hold single trades: the API's tables. */
export function holdsTrades({ schema }: Pick<Manifest, 'schema'>): boolean {
  return TRADE_MARKS.every((name) => schema.some((column) => column.name === name));
}

/**
 * The columns of the files of `manifests`: of single trades those of the contract in its order, then the others in the
 * order of the newest file. There is always a date, because the path gives it.
 * @param manifests ascending by date
 */
export function listColumns(manifests: readonly Manifest[], types: AnswerTypes): readonly ArchiveColumn[] {
  const newestFirst = [...manifests].reverse();
  const found = new Map<string, string[]>();
  for (const { schema } of newestFirst) {
    for (const { name, type } of schema) found.set(name, [...(found.get(name) ?? []), type]);
  }
  const areTrades = newestFirst.some(holdsTrades);
  const contract = areTrades ? TRADE_COLUMNS.filter(({ name }) => name === 'date' || found.has(name)) : [];
  const rest = [...found.keys()].filter((name) => !contract.some((column) => column.name === name));
  // A column of another type under this name is the file's own.
  const isPathDate = (found.get('date') ?? [DATE_TYPE]).every((type) => type === DATE_TYPE);
  const names = [...contract.map(({ name }) => name), ...rest];
  const all = isPathDate && !names.includes('date') ? ['date', ...names] : names;
  return all.map((name) => {
    const known = contract.find((column) => column.name === name);
    if (name === 'date' && isPathDate) return readDate(types);
    if (types === 'api' && known !== undefined) return readContractColumn(known);
    const type = findCommonType(found.get(name) ?? []);
    return types === 'api' ? readText(name, type) : readTyped(name, type, isNullable(name, manifests));
  });
}

function isNullable(name: string, manifests: readonly Manifest[]): boolean {
  return manifests.some(({ schema }) => schema.find((column) => column.name === name)?.nullable ?? true);
}

/** A type that holds every value of the column, in the manifest's names: a job may change a column's type. */
function findCommonType(types: readonly string[]): string {
  const [first = 'BYTE_ARRAY/STRING', ...others] = [...new Set(types)];
  if (others.length === 0) return first;
  if ([first, ...others].every((type) => type.startsWith('INT64/TIMESTAMP'))) return first;
  if (![first, ...others].every((type) => type in NUMBERS)) return 'BYTE_ARRAY/STRING';
  return [first, ...others].includes('DOUBLE') ? 'DOUBLE' : 'INT64';
}

function readDate(types: AnswerTypes): ArchiveColumn {
  if (types === 'api')
    return { name: 'date', readAs: undefined, value: `toLowCardinality(${PATH_DATE})`, type: 'String' };
  // The path is LowCardinality: its date is parsed once a file, not in every row.
  return { name: 'date', readAs: undefined, value: `CAST(toDate32OrZero(${PATH_DATE}), 'Date32')`, type: 'Date32' };
}

/** Texts with few values too: read as LowCardinality, they take half as long again to group and to compare. */
function readTyped(name: string, type: string, nullable: boolean): ArchiveColumn {
  const complete = nullable ? `Nullable(${typeOf(type)})` : typeOf(type);
  return { name, readAs: complete, value: quoteIdentifier(name), type: complete };
}

function typeOf(type: string): string {
  if (type === DATE_TYPE) return 'Date32';
  if (type.startsWith('INT64/TIMESTAMP')) return type.endsWith('utc=false)') ? WALL : INSTANT;
  return NUMBERS[type] ?? 'String';
}

/** A column of the contract, as the API answers it. */
function readContractColumn(column: TradeColumn): ArchiveColumn {
  const { name } = column;
  const quoted = quoteIdentifier(name);
  const type = column.wire === 'string' ? 'String' : answerType(column);
  switch (column.drop) {
    case 'string':
      return { name, readAs: answerType(column), value: quoted, type };
    case 'int32':
      return { name, readAs: 'Int32', value: quoted, type };
    case 'double':
      // A failed model gives NaN, which arrives and is stored as null. Convert it back.
      return column.nullable
        ? { name, readAs: 'Nullable(Float64)', value: `ifNull(${quoted}, nan)`, type }
        : { name, readAs: 'Float64', value: quoted, type };
    case 'date':
      return { name, readAs: 'Nullable(Date32)', value: textOrEmpty('toLowCardinality'), type };
    case 'int64':
      return { name, readAs: 'Nullable(Int64)', value: textOrEmpty('toLowCardinality'), type };
    case 'wall':
      return { name, readAs: WALL, value: `substring(toString(${quoted}), 1, 19)`, type };
    case 'instant':
      return { name, readAs: INSTANT, value: `toString(toUnixTimestamp64Milli(${quoted}))`, type };
    default:
      return column.drop satisfies never;
  }

  /** A null in the drop is an empty text in the API's answer. */
  function textOrEmpty(wrap: string): string {
    return `${wrap}(ifNull(toString(${quoted}), ''))`;
  }
}

/** A column that the API's tables do not have, in the API's manner. @param type the manifest's name */
function readText(name: string, type: string): ArchiveColumn {
  const quoted = quoteIdentifier(name);
  if (type === 'DOUBLE') return { name, readAs: 'Nullable(Float64)', value: `ifNull(${quoted}, nan)`, type: 'Float64' };
  if (type in NUMBERS) return { name, readAs: typeOf(type), value: quoted, type: typeOf(type) };
  if (typeOf(type) === 'String') return { name, readAs: 'String', value: quoted, type: 'String' };
  return { name, readAs: `Nullable(${typeOf(type)})`, value: `ifNull(toString(${quoted}), '')`, type: 'String' };
}
