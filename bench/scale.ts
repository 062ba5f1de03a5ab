/**
 * What a large archive costs besides its rows: 100 datasets of ten years. The ledgers are generated: the manifest of a real
 * run for every date, with the windows of a session of 4 million trades, and a small file of real rows behind each. Each
 * command runs in a process of its own; memory is its peak, with its engine's process. A cost that grows faster than the
 * number of dates is a fault: `growth` is the cost of a date at ten years, beside that at five.
 */
import { spawn } from 'node:child_process';
import { link, mkdir, readFile, truncate, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { previousSessions } from '../src/calendar/session.ts';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { formatCount } from '../src/core/units.ts';
import { describeSealed } from '../src/ledger/condition-file.ts';
import { commitTable } from '../src/ledger/iceberg/table.ts';
import { conditionKey, dropKey, fileKey, manifestKey, tableDropFilename } from '../src/ledger/layout.ts';
import { Ledger } from '../src/ledger/ledger.ts';
import { formatManifest, type Manifest, signManifest } from '../src/ledger/manifest.ts';
import { openDirectoryStore } from '../src/store/directory.ts';
import type { Store } from '../src/store/store.ts';
import { median, type RunBench, say } from './support/bench.ts';
import { atMost } from './support/goal.ts';
import { SAMPLE_DATASET, sealSample } from './support/ledger.ts';
import { self, withFolder } from './support/product.ts';

/** Datasets of the longest ledger, ascending; the last number is what is to be reached. */
const DATASETS = [1, 10, 100];
/** Dates of a dataset, ascending: ten years last, and half of it before. */
const SESSIONS = [252, 1_260, 2_520];
const LAST_SESSION = '2026-11-20';
/** Pages of a session of 4 million trades: ten years of these are 10 billion rows. */
const WINDOWS = 400;

const MOST_STATUS_MS = 2_000;
const MOST_STATUS_MB = 200;
/** Of the cost of a date, from five years to ten. */
const MOST_GROWTH = 1.25;

export const benchScale: RunBench = async ({ note, repeat }) =>
  await withFolder(async (folder) => {
    const store = await openDirectoryStore(join(folder, 'drops'));
    const sample = await sealSample(folder, store);
    const [all, most] = [SESSIONS.at(-1) ?? 0, DATASETS.at(-1) ?? 0];
    const sessions = previousSessions(LAST_SESSION, all);
    say(`scale: ${most} datasets of ${formatCount(all)} dates ...`);
    const lengths = new Map(SESSIONS.map((count) => [`long-${count}`, count]));
    // To verify a date takes a quarter of a second, whatever it has: a tenth of the dates shows how it grows.
    const tenths = new Map(SESSIONS.map((count) => [`tenth-${count}`, Math.ceil(count / 10)]));
    for (const [dataset, count] of [...lengths, ...tenths]) {
      await makeLedger(store, dataset, sessions.slice(-count), sample);
      await writeJob(folder, 'lengths', dataset);
    }
    for (const count of DATASETS) {
      for (let index = 0; index < count; index += 1) {
        const dataset = `set-${String(index).padStart(3, '0')}`;
        if (count === most && index % 10 === 0) say(`scale: dataset ${index + 1} of ${count} ...`);
        // Only their conditions are read, so their manifests are short.
        if (count === most)
          await makeLedger(store, dataset, sessions, { ...sample, windows: [], statistics: [] }, false);
        await writeJob(folder, `sets-${count}`, dataset);
      }
    }
    const run = async (args: readonly string[]) => await runCommand(folder, args, repeat);
    const wide: Line[] = [];
    for (const count of DATASETS)
      wide.push({ what: `status of ${count} jobs`, costs: [await run(['--jobs', `sets-${count}`, 'status'])] });
    const last = wide.at(-1)?.costs[0];
    if (last) {
      const what = `status of ${most} jobs of ${formatCount(all)} dates`;
      note(atMost(`${what}: time`, MOST_STATUS_MS, last.ms, (ms) => `${ms.toFixed(0)} ms`));
      note(atMost(`${what}: memory`, MOST_STATUS_MB, last.mb, (mb) => `${mb.toFixed(0)} MB`));
    }
    const long: Line[] = [];
    for (const [what, of] of listCommands(join(folder, 'drops'))) {
      const costs: Cost[] = [];
      for (const dataset of lengths.keys()) costs.push(await run(of(dataset)));
      long.push({ what, costs });
    }
    const verified: Cost[] = [];
    for (const dataset of tenths.keys()) verified.push(await run(['--jobs', 'lengths', 'verify', dataset]));
    long.push({ what: 'verify, a tenth of the dates', costs: verified });
    long.push({ what: 'Iceberg: a commit', costs: await measureCommits(store, [...lengths.keys()], sample) });
    for (const { what, costs } of long) {
      const growth = growthOf(costs);
      if (growth !== undefined)
        note(atMost(`${what}: growth of a date's cost`, MOST_GROWTH, growth, (x) => x.toFixed(2)));
    }
    await store.close();
    return describe(wide, long);
  });

/** Commands over a dataset, in the folder of jobs of all lengths. */
function listCommands(store: string): readonly (readonly [string, (dataset: string) => readonly string[]])[] {
  const at = ['--jobs', 'lengths'];
  const query = (sql: (table: string) => string) => (dataset: string) => [
    ...['query', sql(dataset.replaceAll('-', '_')), '--from-store', store, '--format', 'json'],
  ];
  return [
    ['status', (dataset) => [...at, 'status', dataset]],
    ['query of one date', query((table) => `SELECT count() AS n FROM ${table} WHERE date = '${LAST_SESSION}'`)],
    ['query of a year', query((table) => `SELECT sum(premium) AS n FROM ${table} WHERE date > '2025-11-20'`)],
    ['query of all dates', query((table) => `SELECT sum(premium) AS n FROM ${table}`)],
    ['iceberg rebuild', (dataset) => [...at, 'iceberg', 'rebuild', dataset]],
  ];
}

interface Cost {
  readonly ms: number;
  /** Peak of the process and its engine's, megabytes. */
  readonly mb: number;
}

interface Line {
  readonly what: string;
  readonly costs: readonly Cost[];
}

/**
 * Files that are read are links to one, with real rows; the others have only their size. Both cost no space.
 */
async function makeLedger(
  store: Store,
  dataset: string,
  dates: readonly string[],
  sample: Manifest,
  isRead = true,
): Promise<void> {
  const [window] = sample.windows;
  const windows = window === undefined ? [] : Array.from({ length: WINDOWS }, () => ({ ...window, rows: 10_000 }));
  const { manifest_hash: _, ...rest } = sample;
  const own = basename(dropKey(dataset, ''));
  const [drop, ...beside] = sample.files;
  const files = [{ ...drop, filename: own }, ...beside] satisfies Manifest['files'];
  const manifests = dates.map((date) =>
    signManifest({ ...rest, dataset, date, windows, files, statistics: moveBounds(sample, date) }),
  );
  for (const { date, ...manifest } of manifests) {
    for (const [index, { filename, size }] of files.entries()) {
      const to = join(store.url, fileKey(dataset, date, filename));
      await mkdir(dirname(to), { recursive: true });
      if (!isRead) {
        await writeFile(to, '');
        await truncate(to, size);
        continue;
      }
      await link(join(store.url, fileKey(SAMPLE_DATASET, sample.date, sample.files[index]?.filename ?? '')), to);
    }
    await writeFile(join(store.url, manifestKey(dataset, date)), formatManifest({ date, ...manifest }));
  }
  const entries = manifests.map((manifest) => describeSealed(manifest));
  const ledger = new Ledger(store, dataset);
  await ledger.writeConditions(entries, await ledger.conditions());
}

/** A table takes only files whose rows have the date of their session. */
function moveBounds({ date: from, statistics = [] }: Manifest, to: string): NonNullable<Manifest['statistics']> {
  const move = (value: string | number | undefined) => (typeof value === 'string' ? value.replaceAll(from, to) : value);
  return statistics.map((one) => ({ ...one, min: move(one.min), max: move(one.max) }));
}

async function writeJob(folder: string, jobs: string, dataset: string): Promise<void> {
  await mkdir(join(folder, jobs), { recursive: true });
  const drop = `drop:\n  to: ${join(folder, 'drops')}\n  dataset: ${dataset}\n  table: iceberg\n`;
  await writeFile(join(folder, jobs, `${dataset}.yaml`), `name: ${dataset}\nsource:\n  api: historical\n${drop}`);
}

async function runCommand(cwd: string, args: readonly string[], repeat: number): Promise<Cost> {
  const costs: Cost[] = [];
  for (let round = 0; round < repeat; round += 1) costs.push(await runOnce(cwd, args));
  const cost = { ms: median(costs.map(({ ms }) => ms)), mb: Math.max(...costs.map(({ mb }) => mb)) };
  say(`scale: ${args.join(' ')}: ${cost.ms.toFixed(0)} ms, ${cost.mb.toFixed(0)} MB`);
  return cost;
}

/** How often the peaks are looked at, milliseconds. */
const LOOK_MS = 5;

async function runOnce(cwd: string, args: readonly string[]): Promise<Cost> {
  const { executable, args: base, env } = self();
  const began = performance.now();
  const child = spawn(executable, [...base, ...args], {
    cwd,
    env: { ...env, FLOWDROP_API_URL: 'http://127.0.0.1:9', FLOWDROP_API_KEY: 'none', FLOWDROP_LOG_LEVEL: 'error' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const errors: string[] = [];
  child.stderr.setEncoding('utf8').on('data', (text: string) => errors.push(text));
  const peaks = new Map<number, number>();
  const look = setInterval(() => void notePeaks(child.pid ?? 0, peaks), LOOK_MS);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  clearInterval(look);
  // Made-up dates are no dates of their files, which `verify` says and ends with 1.
  if (code !== 0 && args[2] !== 'verify') throw new Error(`${args.join(' ')} ended with ${code}: ${errors.join('')}`);
  return { ms: performance.now() - began, mb: [...peaks.values()].reduce((sum, mb) => sum + mb, 0) };
}

async function notePeaks(pid: number, peaks: Map<number, number>): Promise<void> {
  try {
    const status = await readFile(`/proc/${pid}/status`, 'utf8');
    const [, kilobytes] = /^VmHWM:\s+(\d+) kB$/m.exec(status) ?? [];
    if (kilobytes !== undefined) peaks.set(pid, Number(kilobytes) / 1024);
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
    for (const child of children.split(' ').filter(Boolean)) await notePeaks(Number(child), peaks);
  } catch {
    // It has ended; its last peak stays.
  }
}

/** One date more in the table of each dataset, whose other dates are committed. */
async function measureCommits(store: Store, datasets: readonly string[], sample: Manifest): Promise<readonly Cost[]> {
  const costs: Cost[] = [];
  for (const dataset of datasets) {
    // A restated newest date is a commit of its own.
    const { manifest_hash: _, ...rest } = sample;
    const [drop, ...beside] = sample.files;
    const files = [{ ...drop, filename: tableDropFilename(dataset, 2) }, ...beside] satisfies Manifest['files'];
    const moved = { date: LAST_SESSION, statistics: moveBounds(sample, LAST_SESSION) };
    const changed = { ...moved, dataset, revision: 2, sealed_at: '2026-11-21T00:00:00Z', files };
    const again = signManifest({ ...rest, ...changed });
    await store.put(manifestKey(dataset, again.date), { bytes: formatManifest(again) });
    const before = JSON.parse(Buffer.from((await store.get(conditionKey(dataset))) ?? []).toString('utf8')) as {
      readonly date: string;
    }[];
    const entries = before.map((entry) => (entry.date === again.date ? describeSealed(again) : entry));
    await store.put(conditionKey(dataset), { bytes: Buffer.from(JSON.stringify(entries)) });
    const began = performance.now();
    const { dates, unfit } = await commitTable(new Ledger(store, dataset), Date.now());
    if (dates.length !== 1)
      throw new Error(`the commit to ${dataset} added ${dates.length} dates: ${[...unfit.values()].join()}`);
    costs.push({ ms: performance.now() - began, mb: Number.NaN });
  }
  return costs;
}

/** Less says nothing about a date. */
const LEAST_MS = 200;

/** The cost of a date at the longest ledger, beside the one before: what a command takes without dates counts in neither. */
function growthOf(costs: readonly Cost[]): number | undefined {
  const [first, half, whole] = costs.slice(-3).map(({ ms }) => ms);
  if (first === undefined || half === undefined || whole === undefined || half - first < LEAST_MS) return undefined;
  // From a tenth to a half are 4 parts, from a half to all are 5.
  return (whole - half) / 5 / ((half - first) / 4);
}

function describe(wide: readonly Line[], long: readonly Line[]): string {
  const show = ({ ms, mb }: Cost) =>
    Number.isNaN(mb) ? `${ms.toFixed(0)} ms` : `${ms.toFixed(0)} ms, ${mb.toFixed(0)} MB`;
  const counts = SESSIONS.map((count) => right(`${formatCount(count)} dates`));
  return [
    'What grows with the datasets, of the longest ledger each',
    formatTable(
      ['command', right('time, peak memory')],
      wide.map(({ what, costs }) => [what, ...costs.map(show)]),
    ),
    'What grows with the dates of a dataset',
    formatTable(
      ['command', ...counts, right('growth')],
      long.map(({ what, costs }) => [what, ...costs.map(show), growthOf(costs)?.toFixed(2) ?? '']),
    ),
  ].join('\n\n');
}
