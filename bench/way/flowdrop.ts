/**
 * Our way: page bytes -> envelope -> stage -> typed, sorted Parquet -> footer -> read back and compared. The calls are
 * those of `src/run`; only publishing is left out, because no peer publishes.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseWindow } from '../../src/calendar/window.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { writeFooter } from '../../src/seal/footer.ts';
import { listDropColumns, verifyParquet, writeParquet } from '../../src/seal/write-parquet.ts';
import { readEnvelope } from '../../src/source/envelope.ts';
import { openStage } from '../../src/stage/stage.ts';
import { markCopy, type PageSet, readBenchJob, readPageSet } from '../support/pages.ts';
import { createStopwatch } from '../support/stopwatch.ts';
import type { Steps, WayInput } from '../support/way.ts';

/** Pages at once: as many as the worker has requests in flight. */
const IN_FLIGHT = 4;

export async function runFlowdrop(input: WayInput): Promise<Steps> {
  return await run(input, IN_FLIGHT);
}

/** One page after another, so that the times of the steps do not overlap. */
export async function runFlowdropSerially(input: WayInput): Promise<Steps> {
  return await run(input, 1);
}

async function run(input: WayInput, inFlight: number): Promise<Steps> {
  const { time, steps } = createStopwatch();
  const set = await readPageSet(input.pages);
  const job = await readBenchJob();
  const engine = await time('open', () => openEmbeddedEngine({ path: join(input.scratch, 'engine') }));
  try {
    const stage = await openStage(engine, job, set.date, '');
    const queue = listPages(set, input.copies ?? 1);
    const work = async () => {
      for (let next = queue.shift(); next; next = queue.shift()) {
        const { path, window, copy } = next;
        const body = await time('read file', () => readFile(path));
        if (copy > 0) await time('mark copy', () => markCopy(body, copy));
        const page = await time('envelope', () => readEnvelope(body));
        await time('insert', () => stage.put(window, page));
      }
    };
    await Promise.all(Array.from({ length: inFlight }, work));
    const columns = listDropColumns(job.source.columns, await stage.extraFields());
    const totals = await time('totals', () => stage.totals());
    const table = { table: stage.table, duplicates: totals.rows - totals.ids };
    const expected = await time('write and checksum', () => writeParquet(engine, job, table, columns, input.out));
    const keyValues = { 'flowdrop.job': job.name, 'flowdrop.date': set.date };
    await time('footer', () => writeFooter(input.out, { columns, sort: job.drop.sort, keyValues }));
    await time('verify', () => verifyParquet(engine, input.out, columns, expected));
  } finally {
    await time('close', () => engine.close());
  }
  return steps();
}

/** Of copies all but the first have windows that mean nothing: the stage asks only that they differ. */
function listPages({ date, pages }: PageSet, copies: number) {
  return Array.from({ length: copies }, (_, copy) =>
    pages.map(({ path, window }, page) => {
      const second = copy * pages.length + page;
      const made = { date, from: { second }, to: { second: second + 1 } };
      return { path, copy, window: copy === 0 ? parseWindow(date, window) : made };
    }),
  ).flat();
}
