/** What a run needs, opened by the composition root and closed by it. */
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { Engine } from '../engine/engine.ts';
import type { Mailer } from '../mail/mailer.ts';
import type { Source } from '../source/source.ts';
import type { Store } from '../store/store.ts';
import type { OnRunEvent } from './events.ts';
import type { Learnt } from './learnt.ts';
import type { StatePaths } from './state.ts';

export interface RunContext {
  readonly source: Source;
  readonly engine: Engine;
  readonly store: Store;
  readonly mailer: Mailer;
  readonly mailFrom: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly onEvent: OnRunEvent;
  /** What earlier runs learnt of this API; this run adds to it. */
  readonly learnt: Learnt;
  readonly state: StatePaths;
  /** Folder of the MJML templates. */
  readonly templatesDir: string;
  readonly version: string;
  readonly signal?: AbortSignal | undefined;
}
