/** What the site is made of. Types only. */
import type { Log } from '../../core/log.ts';
import type { Doer } from './actions.ts';
import type { ApiReaderOptions } from './api-reader.ts';
import type { Access } from './page-access.ts';

export interface SiteOptions extends ApiReaderOptions {
  readonly access: Access;
  /** Whether the page may act. */
  readonly mayAct: boolean;
  readonly doer: Doer;
  readonly readReport: (job: string, date: string, report: string, revision: number) => Promise<string | undefined>;
  /** Folder whose disk the metrics measure. */
  readonly stateDir: string;
  readonly log: Log;
}
