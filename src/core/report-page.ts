/**
 * The page of an archived report, as mails link it, the store keeps it and the status page serves it: its path there, its links
 * to other pages, and the only script that it has.
 */
import { formatNearDay } from './date-text.ts';

export interface ReportName {
  readonly date: string;
  /** Distinguishes the report from the job's others. */
  readonly report: string;
  readonly revision: number;
}

export const REPORT_PREFIX = '/reports/';

/** `/reports/<job>/<date>/<report>/<revision>` */
export function reportPath(job: string, { date, report, revision }: ReportName): string {
  return REPORT_PREFIX + [job, date, report, String(revision)].map(encodeURIComponent).join('/');
}

/**
 * Where the page has its links to other pages. Whoever sends or serves it puts them there: only they know which addresses
 * lead somewhere.
 */
export const PAGE_LINKS = '<!-- page links --><!-- /page links -->';

/**
 * Links a full report to those of the sessions before and after it, in place of the links that it has.
 * @param all reports of the job that can be linked; of a date the newest revision is, the last one of equal ones
 * @param hrefOf address of a report as seen from this page
 * @param status address of the status page; absent: it is not linked
 */
export function linkReport<Other extends ReportName>(
  page: string,
  own: ReportName,
  all: readonly Other[],
  hrefOf: (other: Other) => string,
  status: string | undefined,
): string {
  const compare = (a: Other, b: Other) => (a.date === b.date ? a.revision - b.revision : a.date < b.date ? -1 : 1);
  const others = all.filter(({ report }) => report === own.report).sort(compare);
  const before = others.findLast(({ date }) => date < own.date);
  const next = others.find(({ date }) => date > own.date);
  const after = others.findLast(({ date }) => date === next?.date);
  const link = (href: string, text: string) => `<li><a href="${href.replaceAll('&', '&amp;')}">${text}</a></li>`;
  const nameDay = ({ date }: Other) => formatNearDay(date, own.date);
  const links = [
    before && link(hrefOf(before), `Report before: ${nameDay(before)}`),
    after && link(hrefOf(after), `Report after: ${nameDay(after)}`),
    status && link(status, 'Status page'),
  ].filter(Boolean);
  const shown = links.length === 0 ? '' : `<nav aria-label="Other pages"><ul>${links.join('')}</ul></nav>`;
  return page.replace(/(<!-- page links -->).*?(<!-- \/page links -->)/s, (_, start, end) => start + shown + end);
}

/** A click on a heading sorts its table. Who serves the page allows this script, by its hash, and no other. */
export const SORT_SCRIPT = `
for (const button of document.querySelectorAll('table button')) {
  button.addEventListener('click', () => {
    const head = button.closest('th');
    const body = button.closest('table').tBodies[0];
    const at = head.cellIndex;
    const sign = head.getAttribute('aria-sort') === 'descending' ? 1 : -1;
    for (const other of head.parentElement.children) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');
    const valueOf = (row) => row.cells[at].dataset.value;
    const compare = (a, b) => {
      if (a === '' || b === '') return (a === '') - (b === '');
      const difference = Number(a) - Number(b);
      return sign * (Number.isNaN(difference) ? a.localeCompare(b) : difference);
    };
    body.append(...[...body.rows].sort((a, b) => compare(valueOf(a), valueOf(b))));
  });
}
`;
