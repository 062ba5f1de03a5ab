/** The page of one drop: its manifest in words, revisions, checks, audit, first rows, sums, and how to read it. Pure. */
import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { formatInstant, formatRelative, formatWeekDate } from '../../core/date-text.ts';
import { formatBytes, formatCount } from '../../core/units.ts';
import { describeAccepted, describeThrough, isAcceptable } from '../../state/documents.ts';
import type { DropDetail, ReportLink, Rows } from '../shapes.ts';
import { renderActionForm, renderDropActions } from './action-form.ts';
import { renderShape, SHAPES } from './condition-calendar.ts';
import { dropPath, html, jobPath, type Markup, renderFacts, renderTime } from './html.ts';
import { nameKind } from './job-page.ts';
import { type PageContext, renderFrame } from './page-frame.ts';

type Manifest = NonNullable<DropDetail['drop']['manifest']>;

/** The API has more, the manifest all. */
const SHOWN_WINDOWS = 50;

export function renderDropPage(
  { drop, first_rows: rows, sums }: DropDetail,
  reports: readonly ReportLink[],
  context: PageContext,
): string {
  const { job, date, condition, damage, accepted, manifest } = drop;
  const canAccept = accepted === null && isAcceptable(condition ?? undefined);
  const main = html`<article class="job" aria-labelledby="drop-title">
<header><p class="small"><a href="${jobPath(job)}">${job}</a></p><h1 id="drop-title">${formatWeekDate(date)}</h1>
<p class="line">${condition && html`<span class="condition ${condition}">${renderShape(condition)} ${condition}</span>`} ${describeInWords(drop, context)}</p>
${damage !== null && html`<div class="error"><p><b>Damaged:</b> ${damage}</p></div>`}
${manifest?.degraded_reason !== undefined && html`<div class="error"><p>${manifest.degraded_reason}</p></div>`}
${manifest?.through !== undefined && drop.audit?.result !== 'equal' && html`<p class="quiet">Its rows are those ${describeThrough(manifest.through)}.</p>`}
${accepted && html`<p class="quiet">${describeAccepted(accepted)}</p>`}
${manifest && html`<p><a class="button" href="${`${dropPath(job, date)}/file`}" download>Download ${manifest.files[0]?.filename}, ${formatBytes(manifest.files[0]?.size ?? 0)}</a></p>`}</header>
${manifest ? renderSealed(drop, manifest, rows, sums, context.nowMs) : html`<p class="quiet">It is not sealed: there is nothing to read yet.</p>`}
${reports.length > 0 && html`<section aria-labelledby="reports-title"><h2 id="reports-title">Reports</h2><ul class="dates">${reports.map(({ report, revision, href }) => html`<li><a href="${href}">${nameKind(report)}</a>${revision > 1 && `, revision ${revision}`}</li>`)}</ul></section>`}
${renderDropActions(job, date, canAccept, context)}</article>${renderActionForm(context)}`;
  return renderFrame({
    title: `flowdrop: ${job} ${date}`,
    path: dropPath(job, date),
    ...{ nowMs: context.nowMs, main, extras: SHAPES },
  });
}

function describeInWords({ manifest, audit }: DropDetail['drop'], { nowMs }: PageContext): Markup {
  if (!manifest) return html``;
  const { rows, source_rows: source, revision, sealed_at: sealedAt, min_time: from, max_time: to } = manifest;
  const sealedMs = Date.parse(sealedAt);
  const proof = manifest.proved === null ? 'not counted at the source' : `the source has the same ${manifest.proved}`;
  const audited = audit
    ? audit.result === 'equal'
      ? `compared again on ${formatInstant(audit.audited_at, EXCHANGE_TIME_ZONE, nowMs)}: equal`
      : `compared again on ${formatInstant(audit.audited_at, EXCHANGE_TIME_ZONE, nowMs)}: ${audit.reason ?? 'it differs'}`
    : 'not compared again yet';
  return html`${formatCount(rows)} rows${source !== null && source !== rows && ` of ${formatCount(source)} at the source`}${from !== null && `, ${from.slice(11, 16)} to ${to?.slice(11, 16)} exchange time`}; revision ${revision}, sealed ${renderTime(sealedMs, formatRelative(sealedMs, nowMs))}; ${proof}; ${audited}.`;
}

function renderSealed(
  drop: DropDetail['drop'],
  manifest: Manifest,
  rows: Rows | null,
  sums: Rows | null,
  nowMs: number,
): Markup {
  const facts = {
    requests: formatCount(manifest.requests),
    windows: formatCount(manifest.windows_total),
    'duplicates left out': formatCount(manifest.duplicates),
    'rows set aside': formatCount(manifest.quarantined),
    'kept though withdrawn': formatCount(manifest.kept),
    'row groups': formatCount(manifest.row_groups),
    'sorted by': manifest.sort.join(', '),
    compression: manifest.compression,
  };
  return html`${renderFacts(facts)}
${renderChecks(manifest)}${renderRevisions(drop, nowMs)}
<section aria-labelledby="rows-title"><h2 id="rows-title">First rows, and sums by symbol</h2>${
    rows === null
      ? html`<p><a class="button" href="${dropPath(drop.job, drop.date)}?rows=1#rows-title">Show them</a> <span class="quiet small">reads the store</span></p>`
      : html`${renderTable(rows, 'First rows')}${sums !== null && sums.length > 0 && renderTable(sums, 'Sums by symbol')}`
  }</section>
${renderSnippets(drop)}
<section aria-labelledby="columns-title"><h2 id="columns-title">Made of</h2>
<details data-key="columns"><summary>Columns</summary><p class="small">${manifest.columns.map(({ name, type, nullable }, index) => html`${index > 0 && ', '}<code>${name}</code> ${type}${nullable && ', nullable'}`)}</p></details>
<details data-key="windows"><summary>Windows</summary><p class="small">${manifest.windows.slice(0, SHOWN_WINDOWS).map(({ window, rows: count }, index) => html`${index > 0 && '; '}${window}: ${formatCount(count)}`)}${manifest.windows_total > SHOWN_WINDOWS && ` and ${formatCount(manifest.windows_total - SHOWN_WINDOWS)} more`}</p></details>
<details data-key="query"><summary>The query</summary><pre class="snippet" tabindex="0">${manifest.query.sql}</pre></details>
<details data-key="files"><summary>Files and hashes</summary><ul class="dates">${manifest.files.map(({ filename, size, hash }) => html`<li>${filename}, ${formatBytes(size)}<br><code>${hash}</code></li>`)}</ul></details></section>`;
}

function renderChecks({ checks, doubts }: Manifest): Markup {
  if (checks.length === 0 && doubts.length === 0) return html``;
  return html`<section aria-labelledby="checks-title"><h2 id="checks-title">Checks</h2><ul class="dates">${checks.map(({ check, column, passed, found, allowed }) => html`<li><span class="badge ${passed ? 'good' : 'fair'}">${passed ? 'passed' : 'failed'}</span> ${check}${column !== null && ` of ${column}`}: ${formatMeasure(found)}, allowed ${formatMeasure(allowed)}</li>`)}${doubts.map((doubt) => html`<li>${doubt}</li>`)}</ul></section>`;
}

/** Of any unit: rows, or a share. */
function formatMeasure(value: number): string {
  return Number.isInteger(value) ? formatCount(value) : String(value);
}

function renderRevisions({ revisions }: DropDetail['drop'], nowMs: number): Markup {
  return html`<section aria-labelledby="revisions-title"><h2 id="revisions-title">Revisions</h2><ol class="dates">${revisions.map(
    ({ revision, rows, sealed_at: at, changes, lost }) => {
      const words = changes
        ? `: ${formatCount(changes.added)} added, ${formatCount(changes.removed)} removed, ${formatCount(changes.altered)} altered`
        : '';
      return html`<li>revision ${revision}${at !== null && `, sealed ${formatInstant(at, EXCHANGE_TIME_ZONE, nowMs)}`}${rows !== null && `, ${formatCount(rows)} rows`}${words}${lost !== null && html` <span class="bad-text">${lost}</span>`}</li>`;
    },
  )}</ol></section>`;
}

function renderTable(rows: Rows, name: string): Markup {
  const columns = Object.keys(rows[0] ?? {});
  if (columns.length === 0) return html`<p class="quiet">No rows.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${name}"><table class="rows plain"><thead><tr>${columns.map((column) => html`<th scope="col">${column}</th>`)}</tr></thead><tbody>${rows.map((row) => html`<tr>${columns.map((column) => html`<td>${formatValue(row[column])}</td>`)}</tr>`)}</tbody></table></div>`;
}

function formatValue(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function renderSnippets(drop: DropDetail['drop']): Markup {
  return html`<section aria-labelledby="read-title"><h2 id="read-title">Read it</h2>${listSnippets(drop).map(([name, text], index) => html`<details data-key="read/${name}"${index === 0 && html` open`}><summary>${name}</summary><pre class="snippet" tabindex="0">${text}</pre></details>`)}</section>`;
}

const SECRET = `CREATE SECRET (TYPE s3, KEY_ID 'AKIA...', SECRET '...', REGION 'us-east-1');\n`;

/** Pairs of a reader's name and a text to paste; none for a date that is not sealed. */
export function listSnippets({
  job,
  location,
  dataset,
  date,
}: Pick<DropDetail['drop'], 'job' | 'location' | 'dataset' | 'date'>): readonly (readonly [string, string])[] {
  if (location === null) return [];
  const isRemote = location.startsWith('s3://');
  const sql = `'${location.replaceAll("'", "''")}'`;
  const python = JSON.stringify(location);
  const table = isRemote ? `s3(${sql}, 'AKIA...', '...', 'Parquet')` : `file(${sql}, 'Parquet')`;
  // Backquotes mean something to a shell, too.
  const name = /^[A-Za-z_]\w*$/.test(dataset) ? dataset : `\\\`${dataset}\\\``;
  return [
    ['DuckDB', `${isRemote ? SECRET : ''}SELECT * FROM read_parquet(${sql}) LIMIT 10;`],
    ['pandas', `import pandas as pd\ntrades = pd.read_parquet(${python})\nprint(trades)`],
    ['Polars', `import polars as pl\ntrades = pl.scan_parquet(${python})\nprint(trades.collect())`],
    ['ClickHouse', `SELECT * FROM ${table} LIMIT 10;`],
    ['flowdrop', `flowdrop query "SELECT * FROM ${name} WHERE date = '${date}' LIMIT 10" --job ${job}`],
  ];
}
