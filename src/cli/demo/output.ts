/** What the demo made, and where: the last thing a new user reads. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { formatBytes, formatCount } from '../../core/units.ts';
import type { Delivery } from '../../deliver/delivery.ts';
import type { RunResult } from '../../state/run-result.ts';
import { formatTable } from '../terminal/table.ts';

/** @param out the demo's folder @param result the JSON document of its run @param program what is typed to start a command */
export async function describeDemo(
  out: string,
  result: RunResult & { readonly reports: readonly Delivery[] },
  program: string,
): Promise<string> {
  const right = 'right' as const;
  const rows = result.dates.map(({ date, rows, size, requests }) => [
    date,
    formatCount(rows),
    formatBytes(size ?? 0),
    String(requests),
  ]);
  const table = formatTable(
    [
      { title: 'sealed' },
      { title: 'rows', align: right },
      { title: 'size', align: right },
      { title: 'requests', align: right },
    ],
    rows,
  );
  const subjects = result.reports.flatMap(({ subject, recipients }) =>
    recipients.length > 0 ? [`Report: ${subject}`] : [],
  );
  const mails = (await readdir(join(out, 'mail')).catch(() => [])).filter((name) => name.endsWith('.html')).sort();
  return `${[
    rows.length > 0
      ? `\n${table}\n`
      : '\nEverything was sealed by an earlier demo: nothing was fetched, nobody was mailed twice.\n',
    ...subjects,
    '',
    `Drops      ${result.store}/${result.dataset}/date=*/  (Parquet and manifest.json)`,
    ...mails
      .slice(-1)
      .map((name) => `Mail       ${join(out, 'mail', name)}  (open it in a browser; the .eml is beside it)`),
    '',
    'Next:',
    `  ${program} query "SELECT symbol, sum(premium) AS premium FROM RawOptionTrades GROUP BY symbol ORDER BY premium DESC LIMIT 10" --from-store out/drops --dataset trades`,
    `  ${program} verify nightly-trades   re-reads what was sealed, where the jobs/ folder is`,
    `  ${program} init desk               sets up a folder \`desk\` with your own key`,
  ].join('\n')}\n`;
}
