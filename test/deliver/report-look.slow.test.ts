/** What `flowdrop check` finds in a report's own templates and logo: by file and line, before a reader sees them. */
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkLooks, readLook } from '../../src/deliver/report-look.ts';
import { parseJob } from '../../src/job/parse.ts';
import { PLACEHOLDER_NAMES } from '../../src/report/text/subject.ts';
import { OPTIONS, renderFlowReport } from '../report/days.ts';
import { TEMPLATES } from '../report/drop-file.ts';
import { createSvgLogo } from '../report/logos.ts';
import { createReport } from '../report/model-fixture.ts';
import { useCleanups } from '../support/cleanups.ts';
import { listBlocks, readPage } from '../support/pages.ts';

const { folder } = useCleanups();
const TO = 'to: [a@example.com]';

/** The reports of a job file in a folder of its own, with templates beside it. */
async function writeReports(lines: string, templates: Readonly<Record<string, string>> = {}) {
  const cwd = await folder();
  await mkdir(join(cwd, 'brand'));
  for (const [name, text] of Object.entries(templates)) await writeFile(join(cwd, 'brand', name), text);
  const head = 'name: a\nsource: {api: historical}\ndrop: {to: out, dataset: trades}\n';
  const { reports } = parseJob(join(cwd, 'a.yaml'), `${head}reports: [{${lines}}]\n`);
  return { reports, brand: join(cwd, 'brand'), cwd };
}

const shipped = async (name: string) => await readFile(join(TEMPLATES, name), 'utf8');

/** A shipped template with one change, and the line of the change. */
async function change(
  name: string,
  from: string,
  to: string,
): Promise<{ readonly text: string; readonly line: number }> {
  const text = await shipped(name);
  const at = text.indexOf(from);
  expect(at).toBeGreaterThan(0);
  return { text: text.replace(from, () => to), line: text.slice(0, at).split('\n').length };
}

describe('own templates', () => {
  it.each(['template: flow', 'template: weekly', 'template: digest, datasets: [trades, index]'])(
    'that are the shipped ones are accepted, of `%s`',
    async (template) => {
      const { reports, brand } = await writeReports(`${template}, ${TO}, templates: ./brand`);
      for (const name of [
        'flow.mjml',
        'flow.txt',
        'full.eta',
        'digest.mjml',
        'weekly.mjml',
        'glance.txt',
        'style.mjml',
      ])
        await copyFile(join(TEMPLATES, name), join(brand, name));
      expect(await checkLooks(reports, TEMPLATES)).toEqual([]);
    },
  );

  it('replace the shipped ones file by file, also where a shipped one includes them', async () => {
    const { reports } = await writeReports(`template: flow, ${TO}, templates: brand`, {
      'glance.txt': `IN SHORT <%~ include('./own.txt', it) %>`,
      '.DS_Store': 'x',
      'own.txt': '<%= it.stamp.label %> <%= it.lead?.basis %> <%= it.sentences %> <%= it.stamp.notice?.text %>',
    });
    expect(await checkLooks(reports, TEMPLATES)).toEqual([]);
    const [report] = reports;
    if (!report) throw new Error('no report');
    const look = await readLook(report.look);
    const { html, text } = await renderFlowReport(createReport(), { ...OPTIONS, look });
    expect(text).toContain('IN SHORT Complete partial: traded contracts only SPX puts');
    expect(text).toContain('WATCHLIST');
    expect(html).toContain('Total premium');
  });

  it.each([
    [
      'glance.mjml',
      '<%= it.premium %>',
      '<%= it.premum.dollars %>',
      "Cannot read properties of undefined (reading 'dollars')",
    ],
    ['glance.mjml', '<% if (!it.empty) { %>', '<% if (!it.empty { %>', "Unexpected token '{'"],
    ['glance.txt', '<% } -%>', '<% } } -%>', 'a block is closed twice, or not at all'],
    [
      'flow.mjml',
      '<mj-preview>',
      '<mj-previous>',
      "mj-previous: Element mj-previous doesn't exist or is not registered",
    ],
    [
      'table.mjml',
      '<mj-table mj-class="data"',
      '<mj-table colour="red" mj-class="data"',
      'mj-table: Attribute colour is illegal',
    ],
    ['full.eta', '<%= flow.bar.map(', '<%= flow.bars.map(', "Cannot read properties of undefined (reading 'map')"],
  ])('are refused by file and line: %s, %s', async (name, from, to, message) => {
    const { text, line } = await change(name, from, to);
    const { reports, brand } = await writeReports(`template: flow, ${TO}, templates: brand`, { [name]: text });
    await expect(checkLooks(reports, TEMPLATES)).rejects.toMatchObject({
      ...{ code: 'TEMPLATE_INVALID', kind: 'usage' },
      message: `template ${join(brand, name)}:${line}: ${message}`,
    });
  });

  it.each([
    ['flow.mjm', 'x', 'has no effect: it has the name of no template'],
    ['alert.mjml', 'x', 'has no effect: it has the name of no template'],
    ['glance.txt', "<%~ include('../../../etc/passwd') %>", 'a template includes only files of its folder'],
  ])('are refused if they would do nothing or leave their folder: %s', async (name, text, message) => {
    const { reports } = await writeReports(`template: flow, ${TO}, templates: brand`, { [name]: text });
    await expect(checkLooks(reports, TEMPLATES)).rejects.toMatchObject({
      code: 'TEMPLATE_INVALID',
      message: expect.stringContaining(message),
    });
  });

  it.each([
    [
      'glance.mjml',
      '<%= it.lead.symbol %>',
      '<%~ it.lead.symbol %>',
      'the HTML mail made from these templates prints text from the data as markup',
    ],
    [
      'glance.txt',
      '<%= it.stamp.label.toUpperCase() %>:',
      'ALL',
      'the text made from these templates does not say that a day is degraded',
    ],
    ['glance.txt', '* <%= sentence %>', '', 'does not say that a report covers only part of the market'],
    ['glance.txt', '<%= it.stamp.notice.text %>', '', 'does not say what is unusual about a day'],
  ])(
    'are refused if they hide how to read the numbers, or print data as markup: %s, %s',
    async (name, from, to, message) => {
      const { text } = await change(name, from, to);
      const quiet = text.replace('This day is not verified as complete.', 'x');
      const { reports } = await writeReports(`template: flow, ${TO}, templates: brand`, { [name]: quiet });
      await expect(checkLooks(reports, TEMPLATES)).rejects.toMatchObject({
        code: 'TEMPLATE_INVALID',
        message: expect.stringContaining(message),
      });
    },
  );
});

describe('a look', () => {
  it('as docs/jobs.md shows it is accepted, with its files beside the job file', async () => {
    const cwd = await folder();
    const [block] = listBlocks('docs/jobs.md').filter(({ info }) => info === 'yaml look check');
    await mkdir(join(cwd, 'brand', 'templates'), { recursive: true });
    await writeFile(join(cwd, 'brand', 'logo.svg'), createSvgLogo());
    await copyFile(join(TEMPLATES, 'glance.mjml'), join(cwd, 'brand', 'templates', 'glance.mjml'));
    const head = 'name: a\nsource: {api: historical}\ndrop: {to: out, dataset: trades}\n';
    const { reports } = parseJob(join(cwd, 'a.yaml'), `${head}${block?.text}`);
    expect(await checkLooks(reports, TEMPLATES)).toHaveLength(1);
  });

  it('has the placeholders that docs/jobs.md lists', () => {
    const listed = [...readPage('docs/jobs.md').matchAll(/^- `\{(\w+)\}`:/gm)].map(([, name]) => name);
    expect(listed).toEqual(PLACEHOLDER_NAMES);
  });

  it('that names a folder of templates that is not there is refused', async () => {
    const { reports } = await writeReports(`template: flow, ${TO}, templates: nowhere`);
    await expect(checkLooks(reports, TEMPLATES)).rejects.toMatchObject({ code: 'TEMPLATE_INVALID', kind: 'usage' });
  });
});
