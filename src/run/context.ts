/** What a run needs, opened by the composition root and closed by it. */
import type { CalendarOverride } from '../calendar/session.ts';
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { Engine } from '../engine/engine.ts';
import type { Mailer } from '../mail/mailer.ts';
import type { Store } from '../store/store.ts';
import type { ClockRule } from './clocks.ts';
import type { OnRunEvent } from './events.ts';
import type { Learnt } from './learnt.ts';
import type { OpenedSource, SourceFacts } from './opened.ts';
import type { StatePaths } from './state.ts';

export interface RunContext {
  /** Tells this run from all others, in every line and record of it. */
  readonly runId: string;
  /** What the job's source tells of itself, of whatever kind it is; `opened` is what asks it. */
  readonly source: SourceFacts;
  readonly opened: OpenedSource;
  readonly engine: Engine;
  readonly store: Store;
  readonly mailer: Mailer;
  readonly mailFrom: string;
  readonly clock: Clock;
  /** Which clocks must agree. Default: `checked`. */
  readonly clockRule?: ClockRule | undefined;
  /** What is otherwise than the rules of the exchange say; without it the rules alone. */
  readonly calendar?: CalendarOverride | undefined;
  readonly log: Log;
  /** Masks secrets in a message that is kept: an answer may repeat what it was sent. */
  readonly redact: (text: string) => string;
  readonly onEvent: OnRunEvent;
  /** What earlier runs learnt of this API; this run adds to it. */
  readonly learnt: Learnt;
  /** Where it is kept for the next run. */
  readonly learntPath: string;
  readonly state: StatePaths;
  /** Folder of the MJML templates. */
  readonly templatesDir: string;
  readonly version: string;
  readonly signal?: AbortSignal | undefined;
}
