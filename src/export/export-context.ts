/** What an export needs. The composition root opens and closes it. */
import type { CalendarOverride } from '../calendar/session.ts';
import type { RestCatalog } from '../catalog/rest-catalog.ts';
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { Engine } from '../engine/engine.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { JobState } from '../state/job-state.ts';
import type { ApiLimits } from '../state/limits.ts';
import type { OnRunEvent } from '../state/run-events.ts';
import type { ClockRule } from './clocks.ts';
import type { OpenedSource, SourceFacts } from './job-source.ts';

export interface ExportContext {
  /** Identifies this run in every log line and record of it. */
  readonly runId: string;
  /** What the job's source reports about itself; `opened` sends the requests. */
  readonly source: SourceFacts;
  readonly opened: OpenedSource;
  readonly engine: Engine;
  /** Of the job's dataset. */
  readonly ledger: Ledger;
  /** The catalog that also has the job's table. */
  readonly catalog?: RestCatalog | undefined;
  readonly clock: Clock;
  /** Which clocks must agree. Default: `checked`. */
  readonly clockRule?: ClockRule | undefined;
  /** Sessions that differ from the exchange's rules; without it the rules alone. */
  readonly calendar?: CalendarOverride | undefined;
  readonly log: Log;
  /** Masks secrets in a message before it is kept: an answer may repeat the key. */
  readonly redact: (text: string) => string;
  readonly onEvent: OnRunEvent;
  /** Limits of this API, found by earlier runs and extended by this one. */
  readonly limits: ApiLimits;
  readonly state: JobState;
  readonly version: string;
  readonly signal?: AbortSignal | undefined;
  /** Who asked that the source's rows replace the sealed ones, however doubtful the change. */
  readonly acceptedBy?: string | undefined;
}
