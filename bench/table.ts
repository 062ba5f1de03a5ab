/**
 * What the Iceberg table of ten years costs: the size of its metadata and the time of a night's commit. The manifest is
 * that of a real run; those of all other sessions are made from it, with the row groups of a session of 7 million trades
 * and bounds of their own. There are no rows: a commit reads none.
 */
import { join } from 'node:path';
import { previousSessions } from '../src/calendar/session.ts';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { formatBytes, formatCount } from '../src/core/units.ts';
import { describeSealed } from '../src/ledger/condition-file.ts';
import { commitTable } from '../src/ledger/iceberg/table.ts';
import { currentSnapshot, keyOf, readTable } from '../src/ledger/iceberg/table-metadata.ts';
import { readManifestList } from '../src/ledger/iceberg/table-snapshots.ts';
import { manifestKey, tableVersionKey } from '../src/ledger/layout.ts';
import { Ledger } from '../src/ledger/ledger.ts';
import { formatManifest, type Manifest, signManifest } from '../src/ledger/manifest.ts';
import { openDirectoryStore } from '../src/store/directory.ts';
import type { Store } from '../src/store/store.ts';
import { createRandom } from '../test/support/random.ts';
import { median, type RunBench, say } from './support/bench.ts';
import { atMost } from './support/goal.ts';
import { sealSample } from './support/ledger.ts';
import { withFolder } from './support/product.ts';

const DATASET = 'trades';
/** Ten years. */
const SESSIONS = 2_520;
/** The last ones are committed one by one, as nights do. */
const NIGHTS = 20;
const LAST_SESSION = '2026-11-20';
/** Of a session of 7 million trades. */
const FILE_BYTES = 400_000_000;
const ROW_GROUPS = 143;

const MOST_BYTES = 5_000_000;
const MOST_SECONDS = 1;

export const benchTable: RunBench = async ({ note }) =>
  await withFolder(async (folder) => {
    const store = await openDirectoryStore(join(folder, 'drops'));
    const sample = await sealSample(folder, store);
    const sessions = previousSessions(LAST_SESSION, SESSIONS);
    say(`table: ${formatCount(SESSIONS)} sessions, ${sessions[0]} to ${LAST_SESSION} ...`);
    const random = createRandom(1);
    await record(store, sessions.slice(0, -NIGHTS), sample, random);
    const bulk = await commit(store);
    const nights: Commit[] = [];
    for (const date of sessions.slice(-NIGHTS)) {
      await record(store, [date], sample, random);
      nights.push(await commit(store));
    }
    const restated: Commit[] = [];
    for (const date of sessions.slice(-NIGHTS)) {
      await record(store, [date], { ...sample, revision: 2 }, random);
      restated.push(await commit(store));
    }
    const parts = await measureParts(store);
    const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
    const slowest = Math.max(...[...nights, ...restated].map(({ seconds }) => seconds));
    note(atMost('metadata that a reader of ten years reads', MOST_BYTES, bytes, formatBytes));
    note(atMost('slowest commit of one date, ten years', MOST_SECONDS, slowest, (value) => `${value.toFixed(2)} s`));
    return describe(parts, bytes, { bulk, nights, restated });
  });

interface Commit {
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly requests: number;
}

/** Writes the manifests of these sessions, and the conditions as the end of a run does. */
async function record(store: Store, dates: readonly string[], sample: Manifest, random: () => number): Promise<void> {
  const entries = [];
  for (const date of dates) {
    const manifest = makeManifest(sample, date, random);
    await store.put(manifestKey(DATASET, date), { bytes: formatManifest(manifest) });
    entries.push(describeSealed(manifest));
  }
  const before = await new Ledger(store, DATASET).conditions();
  const all = new Map([...before.entries, ...entries.map((entry) => [entry.date, entry] as const)]);
  await new Ledger(store, DATASET).writeConditions([...all.values()], before);
}

/** A manifest of another session, with the row groups and bounds of a large one. */
function makeManifest(sample: Manifest, date: string, random: () => number): Manifest {
  const { manifest_hash: _, statistics = [], files, ...rest } = sample;
  const rows = Math.round(7_000_000 * (0.8 + 0.4 * random()));
  const filename = sample.revision === 1 ? 'trades.parquet' : `trades.r${sample.revision}.parquet`;
  const size = Math.round(FILE_BYTES * (1 + random() / 10));
  // Its own date, other numbers.
  const move = (value: string | number | undefined) => {
    if (typeof value === 'number') return Number.isInteger(value) ? Math.round(value * random()) : value * random();
    return value?.replaceAll(sample.date, date);
  };
  return signManifest({
    ...rest,
    ...{ dataset: DATASET, date, rows, sealed_at: `${date}T21:30:0${sample.revision}Z` },
    files: [{ ...files[0], filename, size }],
    row_groups: ROW_GROUPS,
    statistics: statistics.map((one) => ({
      ...one,
      bytes: Math.round((random() * size) / statistics.length),
      nulls: one.nulls === 0 ? 0 : Math.round(random() * rows),
      min: move(one.min),
      max: move(one.max),
    })),
  });
}

async function commit(store: Store): Promise<Commit> {
  let requests = 0;
  const counting = new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      requests += 1;
      return member.bind(target);
    },
  });
  const began = performance.now();
  const used = process.cpuUsage();
  await commitTable(new Ledger(counting, DATASET), Date.now());
  const { user, system } = process.cpuUsage(used);
  return { seconds: (performance.now() - began) / 1000, cpuSeconds: (user + system) / 1_000_000, requests };
}

interface Part {
  readonly name: string;
  readonly files: number;
  readonly bytes: number;
}

/** What a reader of the table reads before any row. */
async function measureParts(store: Store): Promise<readonly Part[]> {
  const found = await readTable(store, DATASET);
  const snapshot = found && currentSnapshot(found.metadata);
  if (!found || !snapshot) throw new Error('there is no table');
  const manifests = await readManifestList(store, snapshot);
  const sizeOf = async (key: string) => (await store.head(key))?.sizeBytes ?? 0;
  return [
    {
      name: `v${found.version}.metadata.json, ${formatCount(found.metadata.snapshots.length)} snapshots`,
      files: 1,
      bytes: await sizeOf(tableVersionKey(DATASET, found.version)),
    },
    { name: 'manifest list', files: 1, bytes: await sizeOf(keyOf(store, snapshot['manifest-list'])) },
    {
      name: 'manifests, one a month',
      files: manifests.length,
      bytes: manifests.reduce((sum, one) => sum + one.manifest_length, 0),
    },
  ];
}

function describe(
  parts: readonly Part[],
  bytes: number,
  { bulk, nights, restated }: { bulk: Commit; nights: readonly Commit[]; restated: readonly Commit[] },
): string {
  const size = formatTable(
    ['what a reader reads', right('files'), right('size')],
    [
      ...parts.map((part) => [part.name, formatCount(part.files), formatBytes(part.bytes)]),
      ['all', formatCount(parts.reduce((sum, part) => sum + part.files, 0)), formatBytes(bytes)],
    ],
  );
  const line = (name: string, commits: readonly Commit[]) => [
    name,
    formatCount(commits.length),
    `${median(commits.map(({ seconds }) => seconds)).toFixed(2)} s`,
    `${Math.max(...commits.map(({ seconds }) => seconds)).toFixed(2)} s`,
    `${median(commits.map(({ cpuSeconds }) => cpuSeconds)).toFixed(2)} s`,
    formatCount(median(commits.map(({ requests }) => requests))),
  ];
  const times = formatTable(
    ['commit', ...['commits', 'median', 'slowest', 'CPU', 'requests'].map(right)],
    [line("a night's date", nights), line('a restated date', restated), line('all other dates at once', [bulk])],
  );
  return `Iceberg table of ${formatCount(SESSIONS)} sessions, in a directory\n\n${size}\n\n${times}`;
}
