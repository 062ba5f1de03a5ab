/**
 * The page of an archived report, as mails link it, the store keeps it and the status page serves it: its path there, and the
 * only script that it has.
 */

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
