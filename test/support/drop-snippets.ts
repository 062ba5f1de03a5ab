/** What the page of a drop says of how to read it, for the newest drop of a job's run. */
import type { DropDetail } from '../../src/daemon/shapes.ts';
import { listSnippets } from '../../src/daemon/web/drop-page.ts';
import { flowdrop, type RunOptions } from './flowdrop.ts';

/** Texts by the name of the reader. @param args that lead to the job files @throws when nothing is sealed */
export async function readSnippets(
  args: readonly string[],
  job: string,
  options: RunOptions,
): Promise<Readonly<Record<string, string>>> {
  const read = async (...words: readonly string[]) => {
    const { code, stdout, stderr } = await flowdrop([...args, '--json', ...words], options);
    if (code !== 0) throw new Error(stderr);
    return JSON.parse(stdout) as unknown;
  };
  const [status] = (await read('status', job)) as readonly {
    readonly dates: readonly { readonly date: string; readonly revision: number | null }[];
  }[];
  const date = status?.dates.findLast(({ revision }) => revision !== null)?.date;
  if (date === undefined) throw new Error(`${job} has nothing sealed`);
  return Object.fromEntries(listSnippets((await read('drop', job, date)) as DropDetail['drop']));
}
