/** What all pages are drawn with. Types only. */
import type { CalendarOverride } from '../../calendar/session.ts';

export interface PageContext {
  readonly nowMs: number;
  readonly calendar: CalendarOverride;
  /** Whether the page has buttons that act. */
  readonly canAct: boolean;
}
