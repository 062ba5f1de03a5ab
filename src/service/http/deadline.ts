/**
 * How long a call may take. Invariant: its answer begins within `BEGIN_MS` or it fails, whatever its endpoint still does;
 * its body has ended within `END_MS` or the connection is cut; and the call's signal is aborted in every way out.
 */
import type { ServerResponse } from 'node:http';
import type { Clock } from '../../core/clock.ts';
import { queryTimeout } from './api-failure.ts';
import type { EndpointAnswer } from './endpoint.ts';

/** Longer than the engine's own limit, for statements that do not look at it. */
const BEGIN_MS = 45_000;
/** The largest answer over a slow line; who reads slower than this holds memory that others need. */
const END_MS = 600_000;

/**
 * @param answer begins the call, under a signal
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

/** Why a call ended of which nobody waits for the answer. */
class CallerGone extends RangeError {
  override readonly name = 'CallerGone';
}

function after(clock: Clock, ms: number, unless: AbortSignal, act: () => void): void {
  clock.sleep(ms, unless).then(act, () => {}); // It ended before.
}
