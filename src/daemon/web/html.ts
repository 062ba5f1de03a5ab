/**
 * Markup from template literals. Invariant: every value is escaped, unless it is markup that this module made; a plain
 * text can never pass as markup. A list is filled in item by item; `undefined`, `null` and `false` become nothing. Also
 * the addresses of pages: each part of them is encoded.
 */

/** Markup that is safe to send; only `html` creates it. */
export class Markup {
  readonly #text: string;

  private constructor(text: string) {
    this.#text = text;
  }

  /** Fills in a template. Values may be in text, or in attributes with double quotes. */
  static fill(strings: TemplateStringsArray, ...values: readonly Filling[]): Markup {
    let text = strings[0] ?? '';
    for (const [index, value] of values.entries()) text += toText(value) + (strings[index + 1] ?? '');
    return new Markup(text);
  }

  toString(): string {
    return this.#text;
  }
}

type Filling = Markup | string | number | undefined | null | false | readonly Filling[];

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  '`': '&#96;',
};

export const html = Markup.fill;

/** A time that people and programs can read. */
export function renderTime(atMs: number, text: string): Markup {
  return html`<time datetime="${new Date(atMs).toISOString()}">${text}</time>`;
}

/** Names with numbers or words. @param kind of the look */
export function renderFacts(
  facts: Readonly<Record<string, string>>,
  kind: 'facts' | 'facts even' = 'facts even',
): Markup {
  const items = Object.entries(facts).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`);
  return html`<dl class="${kind}">${items}</dl>`;
}

function toText(value: Filling): string {
  if (value === undefined || value === null || value === false) return '';
  if (value instanceof Markup) return value.toString();
  if (typeof value === 'object') return value.map(toText).join('');
  return escapeText(String(value));
}

/** Most values: tested first, because a page has thousands of them. */
const PLAIN = /^[\w .,:;/+-]*$/;

/** Also replaces characters that change the text direction, and control characters that HTML does not allow. */
function escapeText(text: string): string {
  if (PLAIN.test(text)) return text;
  return text
    .replace(/[&<>"'`]/g, (char) => ESCAPES[char] ?? '')
    .replace(/[\p{Cc}\p{Bidi_Control}]/gu, (char) => (/[\n\t]/.test(char) ? char : '\ufffd'));
}

export function jobPath(job: string): string {
  return `/jobs/${encodeURIComponent(job)}`;
}

export function runPath(job: string, id: string): string {
  return `/runs/${encodeURIComponent(job)}/${encodeURIComponent(id)}`;
}

export function dropPath(job: string, date: string): string {
  return `/drops/${encodeURIComponent(job)}/${encodeURIComponent(date)}`;
}
