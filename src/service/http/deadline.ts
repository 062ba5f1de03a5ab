/**
 * Time limits of a call. Invariant: the answer begins within `BEGIN_MS` or the call fails, even if its endpoint is
 * still busy; the body ends within `END_MS` or the connection is cut. Both time-outs, and a caller that leaves early,
 * abort the call's signal.
 */
import type { ServerResponse } from 'node:http';
import type { Clock } from '../../core/clock.ts';
import { queryTimeout } from './api-failure.ts';
import type { EndpointAnswer } from './endpoint.ts';

/** Longer than the engine's own time limit; some statements do not check that limit. */
const BEGIN_MS = 45_000;
/** Enough for the largest answer over a slow line; a slower reader would hold memory that others need. */
const END_MS = 600_000;

/**
 * @param answer starts the call, with a signal
 * @throws what `answer` throws, ApiFailure QUERY_TIMEOUT, or an error when the caller is gone
 */
export async function answerInTime(
  raw: ServerResponse,
  clock: Clock,
  answer: (signal: AbortSignal) => Promise<EndpointAnswer>,
): Promise<EndpointAnswer> {
  const closed = new AbortController();
  const call = new AbortController();
  raw.once('close', () => {
    closed.abort();
    if (!raw.writableFinished) call.abort(new CallerGone());
  });
  const begun = new AbortController();
  const late = new Promise<never>((_resolve, reject) => {
    call.signal.addEventListener('abort', () => reject(call.signal.reason), { once: true });
  });
  after(clock, BEGIN_MS, AbortSignal.any([begun.signal, closed.signal]), () => call.abort(queryTimeout()));
  after(clock, END_MS, closed.signal, () => raw.destroy());
  try {
    return await Promise.race([answer(call.signal), late]);
  } finally {
    begun.abort();
  }
}

/** Abort reason of a call whose caller has disconnected. */
class CallerGone extends RangeError {
  override readonly name = 'CallerGone';
}

function after(clock: Clock, ms: number, unless: AbortSignal, act: () => void): void {
  clock.sleep(ms, unless).then(act, () => {}); // The call ended first.
}
