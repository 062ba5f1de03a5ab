/** Whole mails and pages in a job's own look. Its parts: `look.test.ts`; own templates: `report-look.slow.test.ts`. */
import { describe, expect, it } from 'vitest';
import { drawLogo } from '../../src/report/draw/picture.ts';
import { type ReportLook, USUAL_LOOK } from '../../src/report/look.ts';
import { renderFullReport } from '../../src/report/render.ts';
import { buildSampleDay } from '../../src/report/sample-day.ts';
import { DIGEST, OPTIONS, pickDay, renderDigest, renderFlowReport } from './days.ts';
import { createSvgLogo } from './logos.ts';
import { createReport } from './model-fixture.ts';

const withLook = (look: Partial<ReportLook>) => ({ ...OPTIONS, look: { ...USUAL_LOOK, ...look } });

describe('an own title', () => {
  it('stands where the usual one stands, as text, and a late mail still says so', async () => {
    const options = { ...withLook({ title: '<b>Hafen</b> {dataset}' }), late: true };
    const report = createReport();
    const { html, text } = await renderFlowReport(report, options);
    expect(html).toContain('&lt;b&gt;Hafen&lt;/b&gt; trades · SENT LATE');
    expect(text).toMatch(/^<b>Hafen<\/b> trades {2}Thursday, November 19, 2026 {2}\(SENT LATE\)/);
    expect(await renderFullReport([{ title: 'trades', report }], options)).toContain('&lt;b&gt;Hafen&lt;/b&gt; trades');
    const digest = await renderDigest(DIGEST, options);
    for (const part of [html, text, digest.html, digest.text]) expect(part).not.toContain('OPTIONS FLOW');
  });
});

describe('an accent in a mail', () => {
  it('colours links, the button and a line at the top, and no number', async () => {
    const full = { url: 'https://flow.example.com/reports/a', expiresAt: null };
    const { html } = await renderFlowReport(createReport(), { ...withLook({ accent: '#ffb000' }), full });
    expect(html).toContain('4px solid #ffb000');
    expect(html).toMatch(/class="button"[^>]*#9e6d00/);
    expect(html).toContain('.bullish { color: #74b6f2');
    expect(await renderFullReport([{ title: 'a', report: createReport() }], withLook({ accent: '#ffb000' }))).toContain(
      '--link: #9e6d00;',
    );
  });
});

describe('a logo in a mail', () => {
  it('is part of the mail and of the page, so that neither loads it', async () => {
    const logo = await drawLogo('logo.svg', Buffer.from(createSvgLogo()));
    for (const mail of [
      await renderFlowReport(createReport(), withLook({ logo, title: 'Hafen' })),
      await renderDigest(DIGEST, withLook({ logo, title: 'Hafen' })),
    ]) {
      expect(mail.html).toMatch(/<img [^>]*src="cid:logo"[^>]*alt="Hafen"/);
      expect(mail.images.find(({ cid }) => cid === 'logo')?.png).toBe(logo.png);
    }
    const page = await renderFullReport([{ title: 'a', report: createReport() }], withLook({ logo }));
    expect(page).toContain(`src="data:image/png;base64,${Buffer.from(logo.png).toString('base64')}"`);
  });
});

describe('a note in a mail', () => {
  it('is Markdown in the mail and the page, and as it was written in the text', async () => {
    const note = 'Call at **8:30**.\n\n- one\n- [desk](https://example.com/a?b=1&c=2)\n\n# Title';
    const { html, text } = await renderFlowReport(createReport(), withLook({ note }));
    const page = await renderFullReport([{ title: 'a', report: createReport() }], withLook({ note }));
    for (const part of [html, page]) {
      for (const markup of [
        /<strong>8:30<\/strong>/,
        /<li>one<\/li>/,
        /<a href="https:\/\/example.com\/a\?b=1&amp;c=2"[^>]*>desk<\/a>/,
        /<h2[^>]*>Title<\/h2>/,
      ])
        expect(part).toMatch(markup);
    }
    expect(text).toContain(note);
    expect(html.indexOf('8:30')).toBeGreaterThan(html.indexOf('class="say"'));
  });
});

describe('sections of a mail', () => {
  const heads = (html: string) =>
    [...html.matchAll(/<(?:caption|h2)[^>]*>([^<]*)</g)].map(([, head]) => head).filter((head) => head !== '');

  it('are those asked for, in that order, in mail, text and page', async () => {
    const look = withLook({
      sections: ['moved', 'key-numbers', 'strikes-chart', 'volatility', 'rebuild', 'symbols-chart'],
    });
    const report = buildSampleDay('trades');
    const { html, text, images } = await renderFlowReport(report, { ...look, full: { file: 'full.html' } });
    expect(heads(html)).toEqual(['What moved the day', 'Key numbers', expect.stringMatching(/^GEX by strike/)]);
    expect(text.match(/^[A-Z ]{8,}$/gm)).toEqual(['WHAT MOVED THE DAY', 'KEY NUMBERS', 'GEX BY STRIKE']);
    expect(images.map(({ cid }) => cid)).toEqual(['strikes', 'strikes-dark']);
    expect(html + text).not.toContain('Every table, each formula');
    const page = await renderFullReport([{ title: 'a', report }], look);
    const ids = [...page.matchAll(/<section id="([^"]*)"/g)].map(([, id]) => id);
    expect(ids).toEqual(['summary', 'moved', 'key-numbers', 'strikes-chart', 'volatility', 'rebuild', 'symbols-chart']);
  });

  it('none of them takes anything from the first screen', async () => {
    const { report } = pickDay('degraded');
    const { html, text } = await renderFlowReport(report, withLook({ sections: [] }));
    for (const part of [html, text]) {
      for (const fact of ['This day is not verified as complete.', 'traded contracts only', 'otal premium'])
        expect(part).toContain(fact);
    }
    expect(heads(html)).toEqual([]);
    const page = await renderFullReport([{ title: 'a', report }], withLook({ sections: [] }));
    expect(page).toContain('This day is not verified as complete.');
  });
});
