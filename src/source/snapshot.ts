/**
 * Clients of the option chain and market-structure endpoints: one symbol and date in, the rows of that snapshot out.
 * Invariant: an answer is either rows or the API's statement that the snapshot does not exist; everything else is a
 * `SourceFault`. If an answer names its date or symbol, they must match the request.
 *
 * Option chain: rows stay the bytes that the API sent; the key travels only in the body. Rows and `meta` have no specified
 * members, so they only must not contradict the request.
 *
 * Market structure: the key travels only in the Authorization header; an answer that breaks the specification's shape or
 * constraints is a fault, never a row. One snapshot becomes one row: known members are flat columns, and each object is
 * also kept whole as JSON text, because the specification does not define the members of `symbol_meta`, `flow` and
 * `structure`.
 */
import { z } from 'zod';
import { isDate } from '../calendar/wall-clock.ts';
import type { JsonRows } from '../core/json-bytes.ts';
import type { JobColumn, SnapshotSource } from '../job/job.ts';
import { readEnvelope } from './envelope.ts';
import { createRequester, type RequesterOptions, type SourceCall, type Surroundings } from './requester.ts';
import { type AskOptions, SourceFault, type SourceFaultOptions } from './source.ts';
import { type AnswerVerdict, judgeFailure, readErrorBody } from './source-failure.ts';

/** A part of a chain. Strikes are in thousandths of a dollar, both bounds included; `undefined` is unbounded. */
export interface ChainFilter {
  readonly putCall?: 'CALL' | 'PUT';
  readonly strikeMin?: number;
  readonly strikeMax?: number;
}

export type SnapshotAnswer =
  | ({ readonly kind: 'rows' } & JsonRows)
  | { readonly kind: 'missing'; readonly rows: 0 /** The API's own message or code. */; readonly reason: string };

export type SnapshotClient = ReturnType<typeof createSnapshotClient>;

/** How one of the endpoints is asked, and the body of its success is read. A date that is `undefined`: the latest. */
interface SnapshotEndpoint {
  request(
    symbol: string,
    date: string | undefined,
    filter: ChainFilter,
  ): Pick<SourceCall<SnapshotAnswer>, 'url' | 'headers' | 'body' | 'about'>;
  /** @throws anything if it is malformed */
  read(body: Uint8Array, symbol: string, date: string | undefined): JsonRows;
}

/** Below any strike, in thousandths: a request that matches no rows. */
const NO_STRIKE = 0;

/** Requests snapshots. Once this address has returned one, a 404 from it always means that there is none. */
export function createSnapshotClient(
  { api, columns }: Pick<SnapshotSource, 'api' | 'columns'>,
  options: RequesterOptions,
  around: Surroundings,
) {
  const { send, ...client } = createRequester(options, around);
  const { request, read } = api === 'chain' ? createChain(options) : createStructure(options, columns);
  let isKnown = false;
  const ask = async (
    symbol: string,
    date: string | undefined,
    filter: ChainFilter,
    { signal }: Pick<AskOptions, 'signal'>,
  ) => {
    const call = request(symbol, date, filter);
    const about = Object.values(call.about).join();
    return await send<SnapshotAnswer>({
      ...call,
      signal,
      read: (status, body) => {
        const reason = readMissing(status, body, isKnown);
        if (reason !== undefined) return { kind: 'missing', rows: 0, reason };
        if (status < 200 || status > 299) return undefined;
        const rows = read(body, symbol, date);
        isKnown = true;
        return { kind: 'rows', ...rows };
      },
      judge: (status, body, retryAfterMs) =>
        adviseSnapshot(status, judgeFailure(status, body, retryAfterMs, about), about),
    });
  };
  return {
    ...client,
    /** Whether a request can have a filter. */
    canNarrow: api === 'chain',
    /** Costs one request, more with retries. @throws SourceFault whose action is `split` if a narrower filter may help */
    ask: async (
      { symbol, date, filter = {} }: { readonly symbol: string; readonly date: string; readonly filter?: ChainFilter },
      askOptions: Pick<AskOptions, 'signal'> = {},
    ): Promise<SnapshotAnswer> => await ask(symbol, date, filter, askOptions),
    /** The cheapest request that shows whether the endpoint answers, and its clock. @throws SourceFault */
    greet: async (symbol: string, signal?: AbortSignal): Promise<void> => {
      await ask(symbol, undefined, { strikeMax: NO_STRIKE }, { signal });
    },
  };
}

/** The specification names these codes, but not the body that contains them. */
const NOT_FOUND = /(?:snapshot|symbol)[ _]not[ _]found|no (?:snapshot|chain|symbol)/i;

/**
 * Reads why a 404 has no snapshot; `undefined` for any other answer. A wrong address also answers 404, so a 404 that
 * does not mention snapshots counts only if this address has returned one before.
 * @param isKnown whether this address has returned a snapshot before
 */
function readMissing(status: number, body: Uint8Array, isKnown: boolean): string | undefined {
  if (status !== 404) return undefined;
  const text = Buffer.from(body).toString('utf8');
  if (!NOT_FOUND.test(text)) return isKnown ? 'HTTP 404' : undefined;
  return readErrorBody(body)?.errorCode ?? /[A-Z]+_NOT_FOUND/.exec(text)?.[0] ?? 'SNAPSHOT_NOT_FOUND';
}

/** What a status means here, and not at the historical endpoints. */
const ADVICE: Readonly<Record<number, SourceFaultOptions & { readonly code?: string }>> = {
  422: { code: 'REQUEST_TOO_BROAD', action: 'split', hint: 'The chain cannot be narrowed any further.' },
  403: {
    action: 'denied',
    kind: 'usage',
    hint: 'The key is not entitled to this endpoint; ask the provider. It is not retried.',
  },
  400: {
    action: 'stop',
    kind: 'usage',
    hint: 'Check `source.symbols` of the job: the API does not accept this symbol or date.',
  },
};

/** @param about the request, for messages */
function adviseSnapshot(status: number, verdict: AnswerVerdict, about: string): AnswerVerdict {
  const advice = ADVICE[status];
  if (advice === undefined) return verdict;
  const { code, message } = verdict.fault;
  return { kind: 'final', fault: new SourceFault(advice.code ?? code, `${about}: ${message}`, advice) };
}

/** @throws SyntaxError if an answer names another symbol or date than the request */
function assertAbout(what: string, asked: string, said: unknown): void {
  if (typeof said !== 'string' || said.toUpperCase() === asked) return;
  throw new SyntaxError(`it has the ${what} ${JSON.stringify(said)}, ${asked} was requested`);
}

function createChain({ apiKey }: RequesterOptions): SnapshotEndpoint {
  return {
    request: (symbol, date, { putCall, strikeMin, strikeMax }) => {
      const narrow = {
        ...(putCall === undefined ? {} : { put_call: putCall }),
        ...(strikeMin === undefined ? {} : { strike_min: strikeMin / 1000 }),
        ...(strikeMax === undefined ? {} : { strike_max: strikeMax / 1000 }),
      };
      return {
        body: { api_key: apiKey, symbol, ...(date === undefined ? {} : { date }), ...narrow },
        about: { chain: [symbol, date ?? 'latest session', ...Object.values(narrow)].join(' ') },
      };
    },
    read: (body, symbol, date) => {
      const { members, ...page } = readEnvelope(body);
      const { meta } = members;
      if (typeof meta !== 'object' || meta === null) throw new SyntaxError('"meta" is not an object');
      const said = meta as Readonly<Record<string, unknown>>; // Checked above to be an object; its members are unknown.
      assertAbout('symbol', symbol, said['symbol']);
      if (date !== undefined) {
        assertAbout('date', date, said['date']);
        assertAbout('date', date, page.firstRow?.['date']);
      }
      return page;
    },
  };
}

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
function createStructure({ url, apiKey }: RequesterOptions, columns: readonly JobColumn[]): SnapshotEndpoint {
  return {
    request: (symbol, date) => ({
      url: `${url}/${encodeURIComponent(symbol)}${date === undefined ? '' : `?date=${date}`}`,
      headers: { authorization: `Bearer ${apiKey}` },
      about: { 'market-structure': `${symbol} ${date ?? 'active snapshot'}` },
    }),
    read: (body, symbol, date) => {
      const checked = answerSchema.safeParse(JSON.parse(Buffer.from(body).toString('utf8')));
      if (!checked.success) throw new SyntaxError(z.prettifyError(checked.error).replaceAll('\n', ' '));
      assertAbout('symbol', symbol, checked.data.data.symbol);
      if (date !== undefined) assertAbout('date', date, checked.data.meta.effective_date);
      const row = flatten(checked.data, columns);
      return { data: Buffer.from(JSON.stringify([row])), rows: 1, firstRow: row };
    },
  };
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
