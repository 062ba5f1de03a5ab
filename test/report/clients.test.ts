/**
 * What mail programs understand of the mail's HTML and CSS (data of caniemail.com), and that the HTML is valid. Each
 * exception has its reason; one that is no longer needed fails.
 */
import { caniemail } from 'caniemail';
import { HtmlValidate } from 'html-validate';
import { beforeAll, describe, expect, it } from 'vitest';
import { DAYS, DIGEST, OPTIONS, renderDigest, renderFlowReport } from './days.ts';

const CLIENTS = ['gmail.*', 'outlook.*', 'apple-mail.*'] as const;

/** Outlook for Windows lays out with Word. */
const WORD = ['outlook.windows', 'outlook.windows-mail'] as const;
/** Gmail in a phone's browser, not its app, drops style sheets. */
const BARE = ['gmail.mobile-webmail'] as const;

const STYLE_SHEET = 'style sheets serve phones and dark mode only; what is needed to read is written into the elements';
const DECORATION = 'a decoration: without it the mail is square, not wrong';
const MJML = 'written by MJML for other programs; this one ignores it';

/** Feature: which programs do not know it, and why the mail has it all the same. */
const UNSUPPORTED: Readonly<Record<string, { readonly clients: readonly string[]; readonly why: string }>> = {
  '<style> element': { clients: BARE, why: STYLE_SHEET },
  '@media': { clients: [...BARE, ...WORD], why: STYLE_SHEET },
  'Class selector': { clients: BARE, why: STYLE_SHEET },
  'Type selector': { clients: BARE, why: STYLE_SHEET },
  'ID selector': { clients: BARE, why: MJML },
  'Descendant combinator': { clients: BARE, why: STYLE_SHEET },
  'Child combinator': { clients: [...BARE, ...WORD], why: STYLE_SHEET },
  'Chaining selectors': { clients: [...BARE, ...WORD], why: STYLE_SHEET },
  'Attribute selector': {
    clients: [...BARE, ...WORD],
    why: 'the mark of Outlook’s own dark mode, in a style element of its own',
  },
  'display:none': { clients: BARE, why: 'it then shows the few words meant for phones, on a phone' },
  opacity: { clients: [...BARE, ...WORD], why: `of the preheader, which has other ways to hide; ${MJML}` },
  overflow: { clients: WORD, why: `of the preheader, which has other ways to hide; ${MJML}` },
  outline: { clients: WORD, why: MJML },
  'word-spacing': { clients: WORD, why: MJML },
  'border-spacing': { clients: [...WORD, 'outlook.macos'], why: MJML },
  'table-layout': { clients: WORD, why: 'the sentiment bar has widths in per cent, which Word follows' },
  'white-space': { clients: WORD, why: 'a number may then wrap; the query loses its indentation, not its meaning' },
  'word-break': { clients: ['outlook.windows-mail'], why: 'a long path then widens the window, on a desktop' },
  'border-radius': { clients: WORD, why: DECORATION },
  'aria-label attribute': { clients: ['outlook.windows-mail'], why: MJML },
  'role attribute': { clients: ['outlook.windows-mail'], why: 'for screen readers elsewhere' },
  '<body> element': { clients: ['outlook.macos'], why: 'it is replaced by an element of the program' },
};

/** Rules of html-validate that a mail must break. */
const RULES = {
  'doctype-style': ['off', 'written by MJML in small letters, which HTML allows'],
  'no-conditional-comment': ['off', 'Outlook for Windows needs them, and it is used'],
  'no-inline-style': ['off', 'Gmail and Word drop style sheets: a mail is styled inline'],
  'no-deprecated-attr': ['off', 'align, bgcolor and cellpadding are what Word understands'],
  'prefer-native-element': ['off', 'MJML’s role="article", because programs drop <article>'],
  'prefer-tbody': ['off', 'tables that only lay out; the tables of data have theirs'],
  'attribute-allowed-values': ['off', 'MJML’s height="auto" of pictures, which keeps their proportions in Outlook'],
} as const;

let pages: readonly string[];
beforeAll(async () => {
  const days = await Promise.all(DAYS.map(({ report, options }) => renderFlowReport(report, options)));
  pages = [...days, await renderDigest(DIGEST, OPTIONS)].map(({ html }) => html);
});

describe('mail programs', () => {
  it('know every feature of the mail, but for those of a reasoned list', () => {
    const found = new Set<string>();
    for (const html of pages) {
      const { errors } = caniemail({ clients: [...CLIENTS], html }).issues;
      for (const [client, issues] of errors) for (const { title } of issues) found.add(`${title}: ${client}`);
    }
    const listed = Object.entries(UNSUPPORTED).flatMap(([title, { clients }]) =>
      clients.map((one) => `${title}: ${one}`),
    );
    expect([...found].sort()).toEqual(listed.sort());
  });
});

describe('the HTML', () => {
  it('is valid, but for rules that a mail must break', async () => {
    const rules = Object.fromEntries(Object.entries(RULES).map(([rule, [severity]]) => [rule, severity]));
    const validator = new HtmlValidate({ extends: ['html-validate:recommended'], rules });
    for (const html of pages) {
      const { results } = await validator.validateString(html, 'mail.html');
      const messages = results.flatMap(({ messages }) =>
        messages.map(({ ruleId, message, line }) => `${ruleId} ${message} (${line})`),
      );
      expect(messages).toEqual([]);
    }
  });

  it('still breaks each of those rules, so that none is listed in vain', async () => {
    const validator = new HtmlValidate({ extends: ['html-validate:recommended'] });
    const { results } = await validator.validateString(pages[1] ?? '', 'mail.html');
    const broken = new Set(results.flatMap(({ messages }) => messages.map(({ ruleId }) => ruleId)));
    expect([...broken].sort()).toEqual(Object.keys(RULES).sort());
  });
});
