/** The manifest of one real run, from which benches make ledgers of any size. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Ledger } from '../../src/ledger/ledger.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import type { Store } from '../../src/store/store.ts';
import { runJson, withService, workerEnv } from './product.ts';

export const SAMPLE_DATASET = 'sample';

/** The manifest of one session of a real run. */
export async function sealSample(folder: string, store: Store): Promise<Manifest> {
  const job = join(folder, 'trades.yaml');
  const drop = `drop:\n  to: ${store.url}\n  dataset: ${SAMPLE_DATASET}\n  table: iceberg\n`;
  await writeFile(job, `name: trades\nsource:\n  api: historical\n${drop}`);
  await withService(2_000, async ({ url }) => {
    await runJson(folder, ['run', job, '--no-report'], { ...workerEnv(url), FLOWDROP_CLOCK: 'source' });
  });
  const [date = ''] = await new Ledger(store, SAMPLE_DATASET).dates();
  const manifest = await new Ledger(store, SAMPLE_DATASET).manifest(date);
  if (manifest === undefined) throw new Error('the sample was not sealed');
  return manifest;
}
