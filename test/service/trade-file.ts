/** A file of trades at chosen times, for services that must show some of them and hide the others. */
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTrade } from '../support/trades.ts';

export interface TradeFile {
  readonly folder: string;
  readonly path: string;
  remove(): Promise<void>;
}

/** One row per element, with its own columns over those of a made-up trade; `date` is the first part of `time`. */
export async function writeTradeFile(
  rows: readonly { readonly id: string; readonly time: string }[],
): Promise<TradeFile> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'flowdrop-trades-')));
  const path = join(folder, 'trades.ndjson');
  const lines = rows.map((row, index) =>
    JSON.stringify({ ...createTrade(index), date: row.time.slice(0, 10), ...row }),
  );
  await writeFile(path, `${lines.join('\n')}\n`);
  return { folder, path, remove: () => rm(folder, { recursive: true, force: true }) };
}
