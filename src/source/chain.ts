/**
 * Client of the option chain endpoint. Invariant: rows stay the bytes that the API sent; the key travels only in the
 * body. Rows and `meta` have no specified members, so they only must not contradict the request.
 */
import { readEnvelope } from './envelope.ts';
import { createRequester, type RequesterOptions, type Surroundings } from './requester.ts';
import {
  assertAbout,
  type ChainFilter,
  createSnapshotClient,
  type SnapshotAnswer,
  type SnapshotClient,
} from './snapshot.ts';

export function createChainClient(options: RequesterOptions, around: Surroundings): SnapshotClient {
  return createSnapshotClient(createRequester(options, around), {
    canNarrow: true,
    request: (symbol, date, filter) => {
      const narrow = writeFilter(filter);
      return {
        body: { api_key: options.apiKey, symbol, ...(date === undefined ? {} : { date }), ...narrow },
        about: { chain: [symbol, date ?? 'latest session', ...Object.values(narrow)].join(' ') },
      };
    },
    read: readAnswer,
  });
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
