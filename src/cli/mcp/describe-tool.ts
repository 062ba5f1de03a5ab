/** The tool `describe`: tables, columns, formulas and dates. What they mean is said by the pages of the package. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { REPORTS_PREFIX } from '../../ledger/layout.ts';
import { usage } from '../context.ts';
import type { AskedStore } from '../query/asked-store.ts';
import { describeDates } from './basis.ts';
import { askTable } from './query-tool.ts';

type Topic = Readonly<Record<'table' | 'formula', string | undefined>>;

/** @param docs folder of the pages @throws Fault `FORMULA_UNKNOWN` (usage); those of `askTable` */
export async function answerDescribe(
  asked: AskedStore,
  { table, formula }: Partial<Topic>,
  docs: string,
  signal: AbortSignal,
) {
  const formulas = await readSections(join(docs, 'formulas.md'));
  const titles = formulas.map(([title]) => title);
  const wanted = formulas.find(([title]) => title.toLowerCase() === formula?.toLowerCase());
  if (formula !== undefined && wanted === undefined) {
    const hint = `Name one of these: ${titles.join('; ')}.`;
    throw usage(`no formula is named ${JSON.stringify(formula)}`, hint, 'FORMULA_UNKNOWN');
  }
  const tables = await askTable(asked, 'SHOW TABLES', signal);
  const columns = table === undefined ? undefined : await askTable(asked, `DESCRIBE TABLE \`${table}\``, signal);
  const names = columns?.data.map(([name]) => `\`${name}\``) ?? [];
  const countNames = (text: string) => names.filter((name) => text.includes(name)).length;
  const dictionary = (await readSections(join(docs, 'data.md')))
    .map(([, text]) => text.replace(/ {2,}/g, ' ').replace(/-{4,}/g, '---'))
    .sort((a, b) => countNames(b) - countNames(a))[0];
  return {
    tables: Object.fromEntries(tables.data),
    columns: columns && Object.fromEntries(columns.data),
    // A table of a job's own columns is in no page.
    meanings: columns && dictionary && 2 * countNames(dictionary) > names.length ? dictionary : undefined,
    formula: wanted?.[1],
    formulas: wanted === undefined ? titles : undefined,
    jobs_with_reports: await asked.store.listFolders(REPORTS_PREFIX),
    basis: await Promise.all(asked.datasets.map((dataset) => describeDates(asked, dataset))),
  };
}

/** The headings of a page, each with the text below it. */
async function readSections(path: string): Promise<(readonly [title: string, text: string])[]> {
  const parts = (await readFile(path, 'utf8')).split(/^##+ /m).slice(1);
  return parts.map((part) => [part.split('\n', 1)[0] ?? '', part.replace(/^.*\n+/, '').trimEnd()]);
}
