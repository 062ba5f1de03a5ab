/**
 * The contract of snapshots: one symbol and date in, the rows of that snapshot out. Invariant: an answer is either rows
 * or the API's statement that the snapshot does not exist; everything else is a `SourceFault`. If an answer names its
 * date or symbol, they must match the request. Also here: code that both endpoints share.
 */
import type { JsonRows } from '../core/json-bytes.ts';
import type { Requester, SourceCall } from './requester.ts';
import { type AskOptions, SourceFault } from './source.ts';
import { type AnswerVerdict, judgeFailure, readErrorBody } from './source-failure.ts';

/** One request; only option chains have filters. */
interface SnapshotQuestion {
  readonly symbol: string;
  readonly date: string;
  readonly filter?: ChainFilter;
}

/** A part of a chain. Strikes are in thousandths of a dollar, both bounds included; `undefined` is unbounded. */
export interface ChainFilter {
  readonly putCall?: 'CALL' | 'PUT';
  readonly strikeMin?: number;
  readonly strikeMax?: number;
}

export type SnapshotAnswer =
  | ({ readonly kind: 'rows' } & JsonRows)
  | { readonly kind: 'missing'; readonly rows: 0 /** The API's own message or code. */; readonly reason: string };

type SnapshotAskOptions = Pick<AskOptions, 'signal' | 'urgent'>;

export interface SnapshotClient extends Omit<Requester, 'send'> {
  /** Whether a request can have a filter. */
  readonly canNarrow: boolean;
  /** Costs one request, more with retries. @throws SourceFault whose action is `split` if a narrower filter may help */
  ask(request: SnapshotQuestion, options?: SnapshotAskOptions): Promise<SnapshotAnswer>;
  /** The cheapest request that shows whether the endpoint answers, and its clock. @throws SourceFault */
  greet(symbol: string, signal?: AbortSignal): Promise<void>;
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

/** Decides how to handle a failure of a snapshot endpoint. @param about the request, for messages */
function judgeSnapshotFailure(
  status: number,
  body: Uint8Array,
  retryAfterMs: number | undefined,
  about: string,
): AnswerVerdict {
  const verdict = judgeFailure(status, body, retryAfterMs, about);
  const { fault } = verdict;
  const again = (code: string, action: SourceFault['action'], hint: string, isUsage: boolean): AnswerVerdict => ({
    kind: 'final',
    fault: new SourceFault(code, `${about}: ${fault.message}`, { action, hint, ...(isUsage ? { kind: 'usage' } : {}) }),
  });
  if (status === 422) return again('REQUEST_TOO_BROAD', 'split', BROAD_HINT, false);
  if (status === 403) return again(fault.code, 'denied', RIGHTS_HINT, true);
  if (status === 400) return again(fault.code, 'stop', REQUEST_HINT, true);
  return verdict;
}

/** How one of the endpoints is asked, and its answers are read. */
interface SnapshotEndpoint extends Pick<SnapshotClient, 'canNarrow'> {
  /** @param date `undefined`: the latest */
  request(
    symbol: string,
    date: string | undefined,
    filter: ChainFilter,
  ): Pick<SourceCall<SnapshotAnswer>, 'url' | 'headers' | 'body' | 'about'>;
  /** Reads the body of a success. @throws anything if it is malformed */
  read(body: Uint8Array, symbol: string, date: string | undefined): SnapshotAnswer;
}

/** Below any strike, in thousandths: a request that matches no rows. */
const NO_STRIKE = 0;

/** Requests snapshots. Once this address has returned one, a 404 from it always means that there is none. */
export function createSnapshotClient(
  { send, ...client }: Requester,
  { canNarrow, request, read }: SnapshotEndpoint,
): SnapshotClient {
  let isKnown = false;
  const ask = async (
    symbol: string,
    date: string | undefined,
    filter: ChainFilter,
    { signal, urgent }: SnapshotAskOptions,
  ) => {
    const call = request(symbol, date, filter);
    return await send<SnapshotAnswer>({
      ...call,
      signal,
      urgent,
      read: (status, body) => {
        const reason = readMissing(status, body, isKnown);
        if (reason !== undefined) return { kind: 'missing', rows: 0, reason };
        if (status < 200 || status > 299) return undefined;
        const answer = read(body, symbol, date);
        isKnown ||= answer.kind === 'rows';
        return answer;
      },
      judge: (status, body, retryAfterMs) =>
        judgeSnapshotFailure(status, body, retryAfterMs, Object.values(call.about).join()),
    });
  };
  return {
    ...client,
    canNarrow,
    ask: ({ symbol, date, filter = {} }, options = {}) => ask(symbol, date, filter, options),
    greet: async (symbol, signal) => {
      await ask(symbol, undefined, { strikeMax: NO_STRIKE }, { signal });
    },
  };
}

/** @throws SyntaxError if an answer names another symbol or date than the request */
export function assertAbout(what: string, asked: string, said: unknown): void {
  if (typeof said !== 'string' || said.toUpperCase() === asked) return;
  throw new SyntaxError(`it has the ${what} ${JSON.stringify(said)}, ${asked} was requested`);
}

const BROAD_HINT = 'The chain cannot be narrowed any further.';
const RIGHTS_HINT = 'The key is not entitled to this endpoint; ask the provider. It is not retried.';
const REQUEST_HINT = 'Check `source.symbols` of the job: the API does not accept this symbol or date.';
