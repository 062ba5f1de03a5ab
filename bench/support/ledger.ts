/** Ledgers of any size: manifests made from that of one real run, with the row groups and bounds of a large session. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Ledger } from '../../src/ledger/ledger.ts';
import { type Manifest, signManifest } from '../../src/ledger/manifest.ts';
import type { Store } from '../../src/store/store.ts';
import { KEY, runJson, withService } from './product.ts';

export const SAMPLE_DATASET = 'sample';
/** Of a session of 7 million trades. */
const ROW_GROUPS = 143;

/** The manifest of one session of a real run. */
export async function sealSample(folder: string, store: Store): Promise<Manifest> {
  const job = join(folder, 'trades.yaml');
  const drop = `drop:\n  to: ${store.url}\n  dataset: ${SAMPLE_DATASET}\n  table: iceberg\n`;
  await writeFile(job, `name: trades\nsource:\n  api: historical\n${drop}`);
  await withService(2_000, async ({ url }) => {
    const env = { FLOWDROP_API_URL: url, FLOWDROP_API_KEY: KEY, FLOWDROP_LOG_LEVEL: 'warn' };
    await runJson(folder, ['run', job, '--no-report'], { ...env, FLOWDROP_CLOCK: 'source' });
  });
  const [date = ''] = await new Ledger(store, SAMPLE_DATASET).dates();
  const manifest = await new Ledger(store, SAMPLE_DATASET).manifest(date);
  if (manifest === undefined) throw new Error('the sample was not sealed');
  return manifest;
}

interface MadeDate {
  readonly dataset: string;
  readonly date: string;
  /** About the size of the file. Default: that of the sample, exactly. */
  readonly bytes?: number;
}

export function makeManifest(sample: Manifest, { dataset, date, bytes }: MadeDate, random: () => number): Manifest {
  const { manifest_hash: _, statistics = [], files, ...rest } = sample;
  const rows = Math.round(7_000_000 * (0.8 + 0.4 * random()));
  const filename = sample.revision === 1 ? 'trades.parquet' : `trades.r${sample.revision}.parquet`;
  const size = bytes === undefined ? files[0].size : Math.round(bytes * (1 + random() / 10));
  return signManifest({
    ...rest,
    dataset,
    date,
    rows,
    sealed_at: `${date}T21:30:0${sample.revision}Z`,
    files: [{ ...files[0], filename, size }],
    row_groups: ROW_GROUPS,
    statistics: statistics.map((one) => ({
      ...one,
      bytes: Math.round((random() * size) / statistics.length),
      nulls: one.nulls === 0 ? 0 : Math.round(random() * rows),
      min: moveBound(one.min, sample.date, date, random),
      max: moveBound(one.max, sample.date, date, random),
    })),
  });
}

/** A bound of another session: its own date, other numbers. */
function moveBound(value: string | number | undefined, from: string, to: string, random: () => number) {
  if (typeof value === 'number') return Number.isInteger(value) ? Math.round(value * random()) : value * random();
  return value?.replaceAll(from, to);
}
