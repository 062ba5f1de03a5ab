/**
 * Client of the option chain endpoint. Invariant: rows stay the bytes that the API sent; the key travels only in the
 * body. Rows and `meta` have no specified members, so they only must not contradict the request.
 */
import { readEnvelope } from './envelope.ts';
import { createRequester, type RequesterDeps, type RequesterOptions } from './requester.ts';
import {
  assertAbout,
  type ChainFilter,
  createSnapshotAsk,
  type SnapshotAnswer,
  type SnapshotAskOptions,
  type SnapshotClient,
} from './snapshot.ts';

export interface SnapshotOptions extends RequesterOptions {
  /** Address of the endpoint, path included. */
  readonly url: string;
}

/** Below any strike, in thousandths: a request that matches no rows. */
const NO_STRIKE = 0;

export function createChainClient(options: SnapshotOptions, deps: RequesterDeps): SnapshotClient {
  const { url, apiKey } = options;
  const requester = createRequester(options, deps);
  const { stats, serverNow, tellsTime, intervalMs } = requester;
  const send = createSnapshotAsk(requester, 'chain');
  const post = async (
    symbol: string,
    date: string | undefined,
    filter: ChainFilter,
    { signal, urgent }: SnapshotAskOptions,
  ) =>
    await send({
      url,
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify({
        api_key: apiKey,
        symbol,
        ...(date === undefined ? {} : { date }),
        ...writeFilter(filter),
      }),
      signal,
      urgent,
      asked: describeRequest(symbol, date, filter),
      read: (body) => readAnswer(body, symbol, date),
    });
  return {
    url,
    stats,
    canNarrow: true,
    ask: ({ symbol, date, filter = {} }, options = {}) => post(symbol, date, filter, options),
    async greet(symbol, signal) {
      await post(symbol, undefined, { strikeMax: NO_STRIKE }, { signal });
    },
    serverNow,
    tellsTime,
    intervalMs,
  };
}

function readAnswer(body: Uint8Array, symbol: string, date: string | undefined): SnapshotAnswer {
  const { members, ...page } = readEnvelope(body);
  const { meta } = members;
  if (typeof meta !== 'object' || meta === null) throw new SyntaxError('"meta" is not an object');
  const said = meta as Readonly<Record<string, unknown>>; // Checked above to be an object; its members are unknown.
  assertAbout('symbol', symbol, said['symbol']);
  if (date !== undefined) {
    assertAbout('date', date, said['date']);
    assertAbout('date', date, page.firstRow?.['date']);
  }
  return { kind: 'rows', ...page };
}

function writeFilter({ putCall, strikeMin, strikeMax }: ChainFilter): Readonly<Record<string, string | number>> {
  return {
    ...(putCall === undefined ? {} : { put_call: putCall }),
    ...(strikeMin === undefined ? {} : { strike_min: strikeMin / 1000 }),
    ...(strikeMax === undefined ? {} : { strike_max: strikeMax / 1000 }),
  };
}

function describeRequest(symbol: string, date: string | undefined, filter: ChainFilter): string {
  return [symbol, date ?? 'latest session', ...Object.values(writeFilter(filter))].join(' ');
}
