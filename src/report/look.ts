/**
 * What a job file says about how its report looks: words, sections and a note. The first screen, with everything that says
 * how to read the numbers, is no section: it cannot be left out. Invariant: HTML in a note is text, a note loads nothing, and
 * its links lead to web pages and mail addresses only.
 */

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

export interface Logo {
  readonly png: Uint8Array;
  /** CSS pixels. */
  readonly width: number;
  readonly height: number;
}

export interface ReportLook extends ReportWords {
  readonly logo: Logo | null;
}

export const USUAL_LOOK: ReportLook = {
  subject: null,
  title: null,
  accent: null,
  sections: null,
  note: '',
  templates: null,
  logo: null,
};

/** Those that the mail has room for, in its usual order. */
export const MAIL_SECTIONS = ['watchlist', 'key-numbers', 'session-chart', 'strikes-chart', 'moved'] as const;

/** Charts of the full report, in its usual order. */
export const CHART_SECTIONS = ['session-chart', 'symbols-chart', 'strikes-chart'] as const;

export type ChartSection = (typeof CHART_SECTIONS)[number];

/** What the full report ends with. */
export const CLOSING_SECTIONS = ['left-out', 'formulas', 'rebuild'] as const;

/** All names: `watchlist` is of the mail only, those between the charts and `left-out` are the tables of `report-tables.ts`. */
export const SECTIONS = [
  'watchlist',
  'key-numbers',
  ...CHART_SECTIONS,
  'moved',
  'symbols',
  'unusual-symbols',
  'half-hours',
  'expirations',
  'moneyness',
  'biggest-trades',
  'biggest-sweeps',
  'left-out-trades',
  'contracts',
  'opened-contracts',
  'volatility',
  'exposure-changes',
  'gex-by-symbol',
  'zero-gamma',
  'gex-by-strike',
  'gex-by-expiration',
  'max-pain',
  'market-structure',
  ...CLOSING_SECTIONS,
] as const;

export type Section = (typeof SECTIONS)[number];

/** Keeps those that are asked for, in the order asked for; without a wish, all as they are. */
export function chooseSections<T>(
  usual: readonly T[],
  nameOf: (section: T) => string,
  wanted: readonly string[] | null,
): readonly T[] {
  if (wanted === null) return usual;
  return wanted.flatMap((name) => usual.filter((section) => nameOf(section) === name));
}

/** Longer, and it pushes the numbers out of sight. */
export const MAX_NOTE_LENGTH = 4000;

/** What a mail program shows well; no pictures, because opening a mail must not contact a server, and no raw HTML. */
const RULES = [
  'emphasis',
  'link',
  'autolink',
  'list',
  'blockquote',
  'backticks',
  'heading',
  'escape',
  'entity',
  'newline',
];

/** Markup of the note; empty without one. */
export async function renderNote(markdown: string): Promise<string> {
  if (markdown.trim() === '') return '';
  const { default: MarkdownIt } = await import('markdown-it');
  const renderer = new MarkdownIt('zero', { html: false, breaks: true, linkify: false }).enable(RULES);
  renderer.validateLink = (url) => /^(https?:\/\/|mailto:)/i.test(url.trim());
  // A heading of the note is one below the day's, whatever its level in the note.
  renderer.core.ruler.push('headings', ({ tokens }) => {
    for (const token of tokens) if (token.type.startsWith('heading_')) token.tag = 'h2';
  });
  return renderer.render(markdown).trim();
}

/** As it was written, without control characters. */
export function cleanNote(markdown: string): string {
  return markdown.replace(/[^\P{Cc}\n]|[\p{Bidi_Control}]/gu, '').trim();
}
