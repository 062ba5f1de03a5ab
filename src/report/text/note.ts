/**
 * The note of a report: Markdown of its job file, as HTML and as plain text. Invariant: HTML in it is text, it loads nothing,
 * and its links lead to web pages and mail addresses only. The library loads on first use.
 */

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
