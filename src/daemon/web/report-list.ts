/**
 * The archived reports of a job: the newest with a preview each, older ones as links. Invariant: a report is read when
 * somebody unfolds it, never before, because each reading is a process. `loading="lazy"` alone does not keep that: where
 * no script runs, or when the page is printed, a browser reads every frame. So the frame lies in a `template`, which
 * `live-script.ts` takes out; without scripts there is the link. It knows no more of a report than its name.
 */
import type { StatusDocument } from '../documents.ts';
import { html, type Markup } from './html.ts';
import { reportPath } from './report-path.ts';

/** A week of one report; each can hold a whole mail with its pictures. */
const PREVIEWS = 5;
/** Links listed below them; the rest is folded. */
const SHOWN_LINKS = 12;

type ArchivedReport = StatusDocument['reports'][number];

/**
 * @param reports newest first
 * @param key tells this job from the others of the page; a word of letters, digits and hyphens
 */
export function renderReports(job: string, reports: readonly ArchivedReport[], key: string): Markup {
  const links = reports.slice(PREVIEWS, PREVIEWS + SHOWN_LINKS);
  const older = reports.slice(PREVIEWS + SHOWN_LINKS);
  const list = (some: readonly ArchivedReport[]) =>
    html`<ul class="reports">${some.map((report) => renderLink(job, report))}</ul>`;
  return html`<div class="previews" data-live="${key}-previews">${reports.length > 0 && html`<h3>Reports</h3>`}${reports.slice(0, PREVIEWS).map((report) => renderPreview(job, report))}</div>
<div data-live="${key}-reports">${links.length > 0 && list(links)}${older.length > 0 && html`<details data-key="${key}-older"><summary>${older.length} older</summary>${list(older)}</details>`}</div>`;
}

/** `data-stays`: while it is unfolded the script leaves it where it is, as a frame that is moved reads its page again. */
function renderPreview(job: string, report: ArchivedReport): Markup {
  const path = reportPath(job, report);
  const { date, report: id, revision } = report;
  const title = `${nameKind(id)} of ${date}${revision > 0 ? `, revision ${revision}` : ''}`;
  return html`<details data-key="${path}" data-stays><summary data-key="${path}#"><b>${date}</b> ${nameKind(id)} <span class="quiet small">${id}${revision > 0 && `, revision ${revision}`}</span></summary>
<template><iframe loading="lazy" sandbox title="${`Preview: ${title}`}" src="${path}"></iframe></template>
<p><a href="${path}" aria-label="${`Whole page: ${title}`}">Whole page</a></p></details>`;
}

function renderLink(job: string, report: ArchivedReport): Markup {
  return html`<li><a href="${reportPath(job, report)}">${report.date} <span>${report.report}</span></a>${report.revision > 0 && html` <span class="quiet small">revision ${report.revision}</span>`}</li>`;
}

/** A report's id is the name of its template and a short hash, which tells a job's reports from each other. */
function nameKind(id: string): string {
  return `${id.replace(/-[0-9a-f]{8}$/, '')} report`;
}
