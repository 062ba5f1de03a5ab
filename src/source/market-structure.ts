/**
 * Client of the market-structure endpoint. Invariant: the key travels only in the Authorization header; an answer that
 * breaks the specification's shape or constraints is a fault, never a row. One snapshot becomes one row: known members
 * are flat columns, and each object is also kept whole as JSON text, because the specification does not define the
 * members of `symbol_meta`, `flow` and `structure`.
 */
import { z } from 'zod';
import { isDate } from '../calendar/wall-clock.ts';
import type { JobColumn } from '../job/job.ts';
import { createRequester, type RequesterOptions, type Surroundings } from './requester.ts';
import { assertAbout, createSnapshotClient, type SnapshotAnswer, type SnapshotClient } from './snapshot.ts';

/** Members that the specification requires; other members are kept. */
const answerSchema = z.looseObject({
  data: z.looseObject({
    symbol: z.string(),
    symbol_meta: z.looseObject({}),
    flow: z.looseObject({}),
    intraday_gex: z
      .looseObject({
        spot: z.number().positive(),
        call_gex: z.number().nonnegative(),
        put_gex: z.number().nonpositive(),
      })
      .nullable(),
    structure: z.looseObject({}),
  }),
  meta: z.looseObject({
    effective_date: z.iso.date(),
    structure_as_of: z.iso.datetime({ offset: true }),
    flow_as_of: z.iso.datetime({ offset: true }),
    intraday_gex_as_of: z.iso.datetime({ offset: true }).nullable(),
  }),
});
type MarketStructure = z.infer<typeof answerSchema>;

const OBJECTS = ['symbol_meta', 'flow', 'structure'] as const;

/** @param columns of the job: a column named `<object>_<member>` holds that member of the object */
export function createMarketStructureClient(
  options: RequesterOptions,
  columns: readonly JobColumn[],
  around: Surroundings,
): SnapshotClient {
  const { url, apiKey } = options;
  return createSnapshotClient(createRequester(options, around), {
    canNarrow: false,
    request: (symbol, date) => ({
      url: `${url}/${encodeURIComponent(symbol)}${date === undefined ? '' : `?date=${date}`}`,
      headers: { authorization: `Bearer ${apiKey}` },
      about: { 'market-structure': `${symbol} ${date ?? 'active snapshot'}` },
    }),
    read: (body, symbol, date) => readAnswer(body, symbol, date, columns),
  });
}

function readAnswer(
  body: Uint8Array,
  symbol: string,
  date: string | undefined,
  columns: readonly JobColumn[],
): SnapshotAnswer {
  const checked = answerSchema.safeParse(JSON.parse(Buffer.from(body).toString('utf8')));
  if (!checked.success) throw new SyntaxError(z.prettifyError(checked.error).replaceAll('\n', ' '));
  const { data, meta } = checked.data;
  assertAbout('symbol', symbol, data.symbol);
  if (date !== undefined) assertAbout('date', date, meta.effective_date);
  const row = flatten(checked.data, columns);
  return { kind: 'rows', data: Buffer.from(JSON.stringify([row])), rows: 1, firstRow: row };
}

/** The row of a snapshot. A member of the wrong type for its column is null there, but unchanged in the JSON text. */
function flatten({ data, meta }: MarketStructure, columns: readonly JobColumn[]): Readonly<Record<string, unknown>> {
  const { symbol, symbol_meta, flow, intraday_gex, structure, ...otherData } = data;
  const { effective_date, structure_as_of, flow_as_of, intraday_gex_as_of, ...otherMeta } = meta;
  const objects = { symbol_meta, flow, structure };
  const members = columns.flatMap((column) => {
    const object = OBJECTS.find((name) => column.name.startsWith(`${name}_`) && !(column.name in meta));
    if (object === undefined) return [];
    return [[column.name, readMember(objects[object][column.name.slice(object.length + 1)], column)] as const];
  });
  return {
    // First, so that no undocumented member can replace a documented one.
    ...Object.fromEntries(Object.entries(otherMeta).map(([name, value]) => [`meta_${name}`, value])),
    ...Object.fromEntries(Object.entries(otherData).map(([name, value]) => [`data_${name}`, value])),
    symbol: symbol.toUpperCase(),
    date: effective_date,
    effective_date,
    structure_as_of,
    flow_as_of,
    intraday_gex_as_of,
    spot: intraday_gex?.spot ?? null,
    call_gex: intraday_gex?.call_gex ?? null,
    put_gex: intraday_gex?.put_gex ?? null,
    ...Object.fromEntries(members),
    symbol_meta: JSON.stringify(symbol_meta),
    flow: JSON.stringify(flow),
    intraday_gex: intraday_gex && JSON.stringify(intraday_gex),
    structure: JSON.stringify(structure),
  };
}

function readMember(value: unknown, { type }: JobColumn): unknown {
  switch (type) {
    case 'double':
      return typeof value === 'number' ? value : null;
    case 'int32':
    case 'int64':
      return Number.isSafeInteger(value) ? value : null;
    case 'date':
      return typeof value === 'string' && isDate(value) ? value : null;
    case 'string':
    case 'wall':
    case 'instant':
      return typeof value === 'string' ? value : null;
    default:
      return type satisfies never;
  }
}
