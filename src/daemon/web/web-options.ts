/** What the web part of the daemon is made of. Types only. */
import type { CalendarOverride } from '../../calendar/session.ts';
import type { Clock } from '../../core/clock.ts';
import type { ListenAddress } from '../../core/listen-address.ts';
import type { Log } from '../../core/log.ts';
import type { Commands } from '../commands.ts';
import type { Ask, AskAnswer, DaemonView } from '../job-view.ts';

export interface WebOptions {
  readonly address: ListenAddress;
  /** Token that viewers need. Required unless the address is a loopback one. */
  readonly token: string | undefined;
  /** The data to show; pages call it at most once a second. */
  readonly view: () => DaemonView;
  /** Called when someone views the page, at most once a second. */
  readonly onLook: () => Promise<void>;
  /** Whether the page may act. */
  readonly mayAct: boolean;
  /** Does what a person asks for. */
  readonly ask: (ask: Ask) => AskAnswer;
  /** Reads the job files again. */
  readonly reload: () => Promise<void>;
  /** The job's file for child processes. */
  readonly pathOf: (job: string) => string;
  /** Reads stores, by processes. */
  readonly commands: Pick<Commands, 'read' | 'stream'>;
  /** With the remembered runs, and what was done on the page; the metrics measure its disk. */
  readonly stateDir: string;
  readonly calendar: CalendarOverride;
  readonly log: Log;
  readonly clock: Clock;
}
