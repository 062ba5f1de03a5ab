/**
 * The archived reports of a job: previews of the newest, links to older ones. Invariant: a report is read only when
 * someone unfolds it, because each reading starts a process. `loading="lazy"` does not guarantee that: without scripts,
 * or for printing, a browser loads every frame. So the frame is in a `template`, which `live-script.ts` takes out;
 * without scripts there is the link. This module knows only the name of a report.
 */
import { reportPath } from '../../core/report-page.ts';
import type { StatusDocument } from '../documents.ts';
import { html, type Markup } from './html.ts';

/** A week of one report; each preview can contain a whole mail with images. */
const PREVIEWS = 5;
/** Links listed below the previews; the others are folded. */
const SHOWN_LINKS = 12;

type ArchivedReport = StatusDocument['reports'][number];

/**
 * @param reports newest first
 * @param key identifies the job within the page; letters, digits and hyphens only
 */
export function renderReports(job: string, reports: readonly ArchivedReport[], key: string): Markup {
  const links = reports.slice(PREVIEWS, PREVIEWS + SHOWN_LINKS);
  const older = reports.slice(PREVIEWS + SHOWN_LINKS);
  const list = (some: readonly ArchivedReport[]) =>
    html`<ul class="reports">${some.map((report) => renderLink(job, report))}</ul>`;
  return html`<div class="previews" data-live="${key}-previews">${reports.length > 0 && html`<h3>Reports</h3>`}${reports.slice(0, PREVIEWS).map((report) => renderPreview(job, report))}</div>
<div data-live="${key}-reports">${links.length > 0 && list(links)}${older.length > 0 && html`<details data-key="${key}-older"><summary>${older.length} older</summary>${list(older)}</details>`}</div>`;
}

/** `data-stays`: the script does not move it while it is unfolded, because a moved frame loads its page again. */
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

/** A report's id is its template's name and a short hash that makes it unique within the job. */
export function nameKind(id: string): string {
  return `${id.replace(/-[0-9a-f]{8}$/, '')} report`;
}
