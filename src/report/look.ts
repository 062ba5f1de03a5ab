/** What a job file says about how its report looks. Types only; `text/own-words.ts`, `text/note.ts` and `draw/` apply it. */
import type { Logo } from './draw/logo.ts';
import type { Section } from './section.ts';

export interface ReportWords {
  /** Subject with placeholders; null: the usual one. */
  readonly subject: string | null;
  /** Title with placeholders; null: the usual one. */
  readonly title: string | null;
  /** `#rrggbb`; null: the usual colour. */
  readonly accent: string | null;
  /** Which sections, in this order; null: the usual ones. */
  readonly sections: readonly Section[] | null;
  /** Markdown; empty: none. */
  readonly note: string;
  /** Folder whose files replace shipped templates of the same name; null: none. */
  readonly templates: string | null;
}

export interface ReportLook extends ReportWords {
  readonly logo: Logo | null;
}

export const USUAL_LOOK: ReportLook = {
  ...{ subject: null, title: null, accent: null, sections: null, note: '', templates: null },
  logo: null,
};
