/**
 * The drops of a job: their calendar, a table with one row a week, and the page of each one: its manifest in words,
 * revisions, checks, audit, first rows, sums, and how to read it. Every condition has its own shape as well as a colour.
 * Every day has a full sentence, read by screen readers and shown on hover and focus, and leads to its drop. Pure.
 */
import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { nameHoliday } from '../../calendar/holidays.ts';
import { type CalendarOverride, isSession, nameHalfDay } from '../../calendar/session.ts';
import { addDays, formatWallDate, mondayOf, weekday } from '../../calendar/wall-clock.ts';
import { formatDate, formatInstant, formatRelative, formatShortDay, formatWeekDate } from '../../core/date-text.ts';
import { countOf, formatBytes, formatCount } from '../../core/units.ts';
import { CONDITIONS, type Condition } from '../../plan/conditions.ts';
import { describeAccepted, describeThrough, isAcceptable } from '../../state/documents.ts';
import { type DropDetail, type JobDocument, KEPT_WEEKS, type ReportLink, type Rows } from '../shapes.ts';
import { renderActionForm, renderDropActions } from './action-form.ts';
import { dropPath, html, jobPath, type Markup, renderFacts, renderTime } from './html.ts';
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
  const half = nameHalfDay(date, context.calendar);
  const canAccept = accepted === null && isAcceptable(condition ?? undefined);
  const main = html`<article class="job" aria-labelledby="drop-title">
<header><p class="small"><a href="${jobPath(job)}">${job}</a></p><h1 id="drop-title">${formatWeekDate(date)}</h1>${half !== undefined && html`<p class="quiet">Half day, closes ${half}.</p>`}
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
  return html`${countOf(rows, 'row')}${source !== null && source !== rows && ` of ${formatCount(source)} at the source`}${from !== null && `, ${from.slice(11, 16)} to ${to?.slice(11, 16)} exchange time`}; revision ${revision}, sealed ${renderTime(sealedMs, formatRelative(sealedMs, nowMs))}; ${proof}; ${audited}.`;
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
      return html`<li>revision ${revision}${at !== null && `, sealed ${formatInstant(at, EXCHANGE_TIME_ZONE, nowMs)}`}${rows !== null && `, ${countOf(rows, 'row')}`}${words}${lost !== null && html` <span class="bad-text">${lost}</span>`}</li>`;
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

/** A report's id is its template's name and a short hash that makes it unique within the job. */
export function nameKind(id: string): string {
  return `${id.replace(/-[0-9a-f]{8}$/, '')} report`;
}

type DateStatus = JobDocument['dates'][number];

/** Weeks always shown; the lookback is 15 days. Older ones are shown when unfolded, and even older dates are in the store. */
const RECENT_WEEKS = 6;
const DAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'] as const;

/** In the order of the legend, with a short meaning. */
const CONDITION_WORDS: Readonly<Record<Condition, string>> = {
  available: 'sealed and complete',
  degraded: 'sealed, may be incomplete',
  pending: 'not sealed yet',
  missing: 'the source has no rows',
  empty: 'no row meets the filter',
  expired: 'lost before being sealed',
};

/** Shapes on a 16-unit grid; the page contains each once. */
export const SHAPES: Markup = html`<svg width="0" height="0" aria-hidden="true" focusable="false"><defs>
<symbol id="shape-available" viewBox="0 0 16 16"><path d="M3.2 8.6l3.2 3.2 6.4-7" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" stroke-linejoin="round"/></symbol>
<symbol id="shape-degraded" viewBox="0 0 16 16"><path d="M8 2.2L14.4 13.4H1.6z" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linejoin="round"/><path d="M8 6.2v3.4M8 11.3v.3" stroke="currentColor" stroke-width="1.7" stroke-linecap="round"/></symbol>
<symbol id="shape-pending" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.8"/><path d="M8 5v3.2l2.2 1.4" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round"/></symbol>
<symbol id="shape-missing" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.8" stroke-dasharray="2.4 2.2"/></symbol>
<symbol id="shape-empty" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.8"/></symbol>
<symbol id="shape-expired" viewBox="0 0 16 16"><path d="M4 4l8 8M12 4l-8 8" stroke="currentColor" stroke-width="2.2" stroke-linecap="round"/></symbol>
</defs></svg>`;

export function renderShape(condition: Condition): Markup {
  return html`<svg class="shape" aria-hidden="true" focusable="false"><use href="#shape-${condition}"/></svg>`;
}

/**
 * The calendar of a job up to this week.
 * @param statuses oldest first
 * @param key distinguishes its elements from those of other jobs
 * @param job whose drops its days lead to
 */
export function renderCalendar(
  statuses: readonly DateStatus[],
  nowMs: number,
  calendar: CalendarOverride,
  key: string,
  job: string,
): Markup {
  const today = formatWallDate(nowMs);
  const dates = new Map(statuses.map((date) => [date.date, date]));
  const hasWeekends = statuses.some(({ date }) => weekday(date) === 0 || weekday(date) === 6);
  const days = DAYS.slice(0, hasWeekends ? 7 : 5);
  // Before it the job or the source did not exist.
  const first = statuses[0]?.date ?? today;
  const weeks = listWeeks(first, statuses.at(-1)?.date ?? today, today);
  const recent = weeks.slice(-RECENT_WEEKS);
  const earlier = weeks.slice(0, -RECENT_WEEKS);
  const known = new Set(statuses.map(({ condition }) => condition));
  const legend = CONDITIONS.filter((condition) => known.has(condition));
  const renderDay = (date: string) => {
    const close = nameHalfDay(date, calendar);
    const day = html`<span class="date" aria-hidden="true">${Number(date.slice(8))}${close !== undefined && ' ½'}</span>`;
    const status = dates.get(date);
    if (status) {
      const half = close === undefined ? '' : `, half day, closes ${close}`;
      return html`<td class="day ${status.condition}"><a href="${dropPath(job, date)}" data-key="${date}">${day}${renderShape(status.condition)}<span class="tip">${describeDate(status)}${half}</span></a></td>`;
    }
    const closed = nameClosure(date, calendar);
    if (closed !== undefined) {
      return html`<td class="day closed" tabindex="0" data-key="${date}">${day}<span class="holiday" aria-hidden="true">${hyphenate(closed)}</span><span class="tip">${formatWeekDate(date)}: closed, ${closed}</span></td>`;
    }
    const why = date > today ? 'in the future' : date < first ? 'before the first known date' : 'not due yet';
    return html`<td class="day none">${day}<span class="unseen">${formatWeekDate(date)}: ${isSession(date, calendar) ? why : 'weekend'}</span></td>`;
  };
  /** With the year if the day is in the first week of January. */
  const renderWeek = (monday: string) =>
    html`<tr><th scope="row">${/-01-0[1-7]$/.test(monday) ? formatDate(monday) : formatShortDay(monday)}</th>${days.map((_, index) => renderDay(addDays(monday, index)))}</tr>
`;
  const renderWeeks = (some: readonly string[], caption: string) =>
    html`<table class="calendar"><caption class="unseen">${caption}</caption>
<thead><tr><th scope="col"><span class="unseen">Week of</span></th>${days.map((day) => html`<th scope="col">${day}</th>`)}</tr></thead>
<tbody>${some.map(renderWeek)}</tbody></table>`;
  return html`${renderWeeks(recent, `Conditions of the last ${recent.length === 1 ? 'week' : `${recent.length} weeks`}`)}
<ul class="legend">${legend.map((condition) => html`<li>${renderShape(condition)}<b>${condition}</b> ${CONDITION_WORDS[condition]}</li>`)}</ul>
${
  earlier.length > 0 &&
  html`<details data-key="${key}-earlier"><summary>Earlier: ${tell(earlier, dates)}</summary>
${renderWeeks(earlier, 'Conditions of earlier weeks')}</details>`
}`;
}

function describeDate({
  date,
  condition,
  rows,
  revision,
  damage,
  accepted,
  begins_to_expire: expires,
}: DateStatus): string {
  const parts = [`${formatWeekDate(date)}: ${condition}`];
  if (rows !== null) parts.push(countOf(rows, 'row'));
  if (revision !== null) parts.push(`revision ${revision}`);
  if (damage) parts.push(`damaged: ${damage}`);
  if (accepted) parts.push(describeAccepted(accepted));
  if (expires !== null && !Number.isNaN(Date.parse(expires))) {
    parts.push(`begins to expire ${formatInstant(expires, EXCHANGE_TIME_ZONE, date)}`);
  }
  return parts.join(', ');
}

/** Lets long words break in narrow cells on a phone: not all browsers have a hyphenation dictionary. */
function hyphenate(name: string): string {
  return name.replace(/^(Thanks|Inde|Washing|June|Christ|Memo|Unsche)(?=[a-z])/, '$1\u00ad');
}

/** Why a weekday has no session; `undefined` for session days and normal weekends. */
function nameClosure(date: string, calendar: CalendarOverride): string | undefined {
  if (isSession(date, calendar)) return undefined;
  if (calendar.closed.has(date)) return nameHoliday(date) ?? 'Closed by the calendar file';
  return nameHoliday(date);
}

/** Mondays from the first date's week to this week or the last date's, whichever is later; bounded. */
function listWeeks(first: string, last: string, today: string): readonly string[] {
  const end = mondayOf(last > today ? last : today);
  const weeks: string[] = [];
  for (let week = end; week >= mondayOf(first) && weeks.length < KEPT_WEEKS; week = addDays(week, -7)) weeks.push(week);
  return weeks.reverse();
}

function tell(weeks: readonly string[], dates: ReadonlyMap<string, DateStatus>): string {
  const [from = '', to = ''] = [weeks[0], addDays(weeks.at(-1) ?? '', 6)];
  const inside = [...dates.values()].filter(({ date }) => date >= from && date <= to);
  const counts = CONDITIONS.flatMap((condition) => {
    const count = inside.filter((date) => date.condition === condition).length;
    return count > 0 ? [`${count} ${condition}`] : [];
  });
  return `${countOf(weeks.length, 'week')}, ${counts.join(', ')}`;
}
