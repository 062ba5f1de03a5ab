/**
 * The look of a report: reads what its job file names, and checks it before a reader sees it. A check renders made-up days
 * with the job's own templates: an ordinary one, an empty one, and one that is filtered, degraded, late and corrected.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describeError, Fault } from '../core/errors.ts';
import type { JobLook, JobReport } from '../job/job.ts';
import { buildAccent } from '../report/draw/palette.ts';
import { drawLogo } from '../report/draw/picture.ts';
import type { ReportLook } from '../report/look.ts';
import type { FlowReport } from '../report/model.ts';
import { type RenderOptions, renderFullReport, renderReport } from '../report/render.ts';
import {
  addSampleWeek,
  buildDoubtfulDay,
  buildEmptyDay,
  buildSampleDay,
  SAMPLE_DOUBT,
  SAMPLE_FILTER,
  SAMPLE_GEX,
  SAMPLE_MARKUP,
} from '../report/sample-day.ts';
import type { DigestPart } from '../report/text/mail-view.ts';

/** The templates of operators' alerts, which no report has. */
const ALERT_TEMPLATE = /^alert\./;

/** @throws Fault `LOGO_INVALID`, `TEMPLATE_INVALID` (usage) */
export async function readLook({ logo: path, ...words }: JobLook): Promise<ReportLook> {
  if (words.templates !== null) await listFiles(words.templates);
  if (path === null) return { ...words, logo: null };
  const bytes = await readFile(path).catch((cause: unknown) => {
    const what = `${path}: the logo cannot be read: ${describeError(cause)}`;
    throw unusable('LOGO_INVALID', what, 'A logo is a file; its path is relative to the job file.', cause);
  });
  return { ...words, logo: await drawLogo(path, bytes) };
}

/**
 * Reads and renders what the reports' looks name.
 * @returns what a person should know: shades that differ from the chosen colour
 * @throws Fault `LOGO_INVALID`, `TEMPLATE_INVALID` (usage) with the file, and the line where there is one
 */
export async function checkLooks(reports: readonly JobReport[], templatesDir: string): Promise<readonly string[]> {
  const notes: string[] = [];
  for (const report of reports) {
    const look = await readLook(report.look);
    notes.push(...describeShades(look.accent));
    if (look.templates === null) continue;
    await assertKnownFiles(look.templates, templatesDir);
    await renderSamples(report, look, templatesDir);
  }
  return [...new Set(notes)];
}

/** Which shades readers see, if they are not the chosen colour. */
function describeShades(chosen: string | null): readonly string[] {
  if (chosen === null) return [];
  const { light, dark } = buildAccent(chosen);
  const shades = [
    ...(light === chosen.toLowerCase() ? [] : [`${light} on white`]),
    ...(dark === chosen.toLowerCase() ? [] : [`${dark} in dark mode`]),
  ];
  return shades.length === 0 ? [] : [`accent ${chosen} is shown as ${shades.join(' and ')}, so that it can be read`];
}

function unusable(code: 'LOGO_INVALID' | 'TEMPLATE_INVALID', message: string, hint: string, cause?: unknown): Fault {
  return new Fault(code, message, { kind: 'usage', hint, cause });
}

async function listFiles(folder: string): Promise<readonly string[]> {
  return await readdir(folder).catch((cause: unknown) => {
    const what = `${folder}: the templates cannot be read: ${describeError(cause)}`;
    throw unusable('TEMPLATE_INVALID', what, '`templates` is a folder; its path is relative to the job file.', cause);
  });
}

/** A misspelled name would change nothing, and nobody would notice. */
async function assertKnownFiles(folder: string, templatesDir: string): Promise<void> {
  const known = (await readdir(templatesDir)).filter((name) => !ALERT_TEMPLATE.test(name)).sort();
  // Editors and file managers leave hidden files.
  const own = (await listFiles(folder)).filter((name) => !name.startsWith('.'));
  const texts = await Promise.all(own.map(async (name) => await readFile(join(folder, name), 'utf8').catch(() => '')));
  const stray = own.find((name) => !known.includes(name) && !texts.some((text) => text.includes(`./${name}`)));
  if (stray === undefined) return;
  const what = `${join(folder, stray)} has no effect: it has the name of no template, and no template includes it`;
  throw unusable('TEMPLATE_INVALID', what, `Rename or remove it. Names of templates: ${known.join(', ')}.`);
}

async function renderSamples(report: JobReport, look: ReportLook, templatesDir: string): Promise<void> {
  const dataset = report.datasets[0] ?? 'sample';
  const usual: RenderOptions = {
    ...{ templatesDir, look, timezone: 'America/New_York', late: false, correction: null, leftOut: ['sample.csv'] },
    ...{ link: { url: 'https://example.com/a', expiresAt: '2026-01-18T00:00:00.000Z' }, full: { file: 'full.html' } },
  };
  const changes = [{ name: 'Premium', before: '$1.00B', after: '$1.24B' }];
  const corrected = { late: true, full: { url: 'https://example.com', expiresAt: null } };
  await renderSample(report, buildSampleDay(dataset), { ...usual, correction: { fromRevision: 1, changes } });
  await renderSample(report, buildEmptyDay(dataset), usual);
  const whole = { ...usual, ...corrected, correction: { fromRevision: 1, changes: [] } };
  const texts = await renderSample(report, buildDoubtfulDay(dataset), whole);
  for (const [name, text] of Object.entries(texts)) {
    const made = `${look.templates}: the ${name} made from these templates`;
    if (name !== 'text' && text.includes(SAMPLE_MARKUP)) {
      const hint = 'Print values with <%= instead of <%~.';
      throw unusable('TEMPLATE_INVALID', `${made} prints text from the data as markup`, hint);
    }
    for (const { fact, what, beside } of FACTS) {
      if (text.toLowerCase().includes(fact) || !text.includes(beside)) continue;
      const hint =
        'Print it.stamp.label, it.stamp.notice, it.sentences and it.lead.basis of each report, as the shipped templates do.';
      throw unusable('TEMPLATE_INVALID', `${made} does not say ${what}`, hint);
    }
  }
}

/** What no reader may miss, as it is printed of the doubtful day; `beside`: the text that it explains. */
const FACTS = [
  { fact: 'degraded', what: 'that a day is degraded', beside: '' },
  { fact: SAMPLE_DOUBT, what: 'what is unusual about a day', beside: '' },
  { fact: SAMPLE_FILTER, what: 'that a report covers only part of the market', beside: '' },
  { fact: 'traded contracts only', what: 'that its GEX covers traded contracts only', beside: SAMPLE_GEX },
];

async function renderSample({ template }: JobReport, day: FlowReport, options: RenderOptions) {
  const { dataset } = day.drop;
  const part: DigestPart = { title: dataset, report: template === 'weekly' ? addSampleWeek(day) : day };
  const parts = template === 'digest' ? [part, { title: 'pending', pending: day.drop.date }] : [part];
  const { html, text } = await renderReport(template, parts, options);
  return { 'HTML mail': html, text, 'full report': await renderFullReport(parts, options) };
}
