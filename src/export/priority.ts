/**
 * Priority where several processes share the API's budget: requests for a date that expires soon go first. Backfills of
 * other dates wait a little longer, but are never starved. The dates of snapshots are assumed to expire as trades do.
 */
import type { AskOptions } from '../source/source.ts';

/** One night's work and a retry: a date that expires later can wait. */
const URGENT_MS = 24 * 3_600_000;

interface Asked<Question, Answer> {
  ask(question: Question, options?: AskOptions): Promise<Answer>;
  serverNow(): number;
}

/** The source, with urgent requests once the date expires soon. */
export function hurry<Question, Answer, Source extends Asked<Question, Answer>>(
  source: Source & Asked<Question, Answer>,
  expiresAtMs: number,
): Source {
  return {
    ...source,
    ask: (question: Question, options?: AskOptions) => {
      const isUrgent = expiresAtMs - source.serverNow() < URGENT_MS;
      return source.ask(question, { ...options, urgent: isUrgent || options?.urgent === true });
    },
  };
}
