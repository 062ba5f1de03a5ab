/**
 * Page JSON -> sorted Parquet: our way beside its peers, on the same pages. The rounds alternate the ways, so that a
 * noisy minute hits all of them; every file is read back and must hold the same values in the same order.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { formatBytes, formatCount } from '../src/core/units.ts';
import { formatRatio, median, type RunBench, say } from './support/bench.ts';
import { type Content, readContent } from './support/content.ts';
import { atLeast, atMost, type Goal } from './support/goal.ts';
import { fetchPages, type PageSet } from './support/pages.ts';
import { withFolder } from './support/product.ts';
import { runWay, WAYS, type WayName, type WayResult } from './support/way.ts';

const CODECS: Readonly<Record<WayName, string>> = {
  flowdrop: 'ZSTD',
  'flowdrop-serial': 'ZSTD',
  duckdb: 'ZSTD',
  'hyparquet-writer': 'Snappy',
  'parquetjs-lite': 'Snappy',
};

const PEERS = WAYS.filter((name) => !name.startsWith('flowdrop'));
/** Speed beside the fastest peer and beside parquetjs-lite; size beside DuckDB's. */
const REACH_BEST = 2;
const REACH_COMMON = 12;
const REACH_SIZE = 1;

/** Ways that take minutes: measured once, on all the rows; the table says how often each was. */
const ONCE: ReadonlySet<WayName> = new Set(['parquetjs-lite']);

export const benchSeal: RunBench = async ({ rows, repeat, note }) =>
  await withFolder(async (folder) => {
    const set = await fetchPages(join(folder, 'pages'), rows);
    const results = new Map<WayName, WayResult[]>(WAYS.map((name) => [name, []]));
    const contents = new Map<WayName, Content>();
    for (let round = 1; round <= repeat; round += 1) {
      for (const name of WAYS) {
        if (round > 1 && ONCE.has(name)) continue;
        say(`seal: ${name}, ${round} of ${repeat}`);
        const { result, content } = await measure(folder, name);
        results.get(name)?.push(result);
        contents.set(name, content);
        say(`  ${Math.round(result.wallMs)} ms ${JSON.stringify(result.steps)}`);
      }
    }
    const middle: Middle = (name, pick) => median((results.get(name) ?? []).map(pick));
    for (const goal of listGoals(rows, middle)) note(goal);
    return `${describe(set, results, middle, contents)}\n\n${describeSteps(set, results.get('flowdrop-serial') ?? [])}`;
  });

async function measure(folder: string, name: WayName): Promise<{ result: WayResult; content: Content }> {
  const out = join(folder, `${name}.parquet`);
  try {
    const result = await runWay(name, { pages: join(folder, 'pages'), out });
    return { result, content: await readContent(out) };
  } finally {
    await rm(out, { force: true });
  }
}

/** The median of a way's runs. */
type Middle = (name: WayName, pick: (result: WayResult) => number) => number;

function describe(
  set: PageSet,
  results: ReadonlyMap<WayName, readonly WayResult[]>,
  middle: Middle,
  contents: ReadonlyMap<WayName, Content>,
): string {
  const ourMs = middle('flowdrop', ({ wallMs }) => wallMs);
  const duckBytes = middle('duckdb', ({ sizeBytes }) => sizeBytes);
  const ours = contents.get('flowdrop');
  const lines = WAYS.map((name) => {
    const content = contents.get(name);
    const wallMs = middle(name, (result) => result.wallMs);
    const sizeBytes = middle(name, (result) => result.sizeBytes);
    return [
      name,
      CODECS[name],
      formatCount(content?.rows ?? 0),
      String(results.get(name)?.length ?? 0),
      content?.hash === ours?.hash ? 'yes' : 'NO',
      formatCount(((content?.rows ?? 0) / wallMs) * 1000),
      formatRatio(ourMs / wallMs),
      `${(wallMs / 1000).toFixed(1)} s`,
      (middle(name, (result) => result.cpuMs) / 1000 / ((content?.rows ?? 0) / 1e6)).toFixed(1),
      formatBytes(middle(name, (result) => result.peakBytes)),
      formatBytes(sizeBytes),
      formatRatio(sizeBytes / duckBytes),
    ];
  });
  const numbers = ['rows', 'runs', 'same', 'rows/s', 'speed', 'wall', 'CPU s a million', 'peak memory', 'file', 'size'];
  return [
    `Page JSON to Parquet: ${formatCount(set.rows)} rows, ${set.pages.length} pages, ${formatBytes(set.bytes)} of JSON (medians of the runs)`,
    '',
    formatTable(['way', 'codec', ...numbers.map(right)], lines),
    '',
    'speed: against flowdrop in this run. size: against DuckDB with ZSTD. same: all values, in the same order, as flowdrop.',
    'flowdrop also compares every value of the file with its stage and reads it with a second reader; the others only write.',
    'flowdrop stages as many pages at once as the worker has requests in flight; flowdrop-serial one after another.',
    'All sort by symbol, time, id; hyparquet-writer and parquetjs-lite sort and type their rows in JavaScript.',
    `Files say they are from: ${[...new Set([...contents.values()].map(({ writer }) => writer))].join('; ')}.`,
  ].join('\n');
}

/** Against the fastest peer, the writer that most Node programs use, and the smallest of the peers' files. */
function listGoals(rows: number, middle: Middle): readonly Goal[] {
  const wallMs = (name: WayName) => middle(name, (result) => result.wallMs);
  const best = PEERS.reduce((fastest, name) => (wallMs(name) < wallMs(fastest) ? name : fastest));
  const speed = (peer: WayName) => wallMs(peer) / wallMs('flowdrop');
  const what = `page JSON -> sealed Parquet, ${formatCount(rows)} rows`;
  const perSecond = (name: WayName) => formatCount(Math.round((rows / wallMs(name)) * 1000));
  const cpu = middle('flowdrop', ({ cpuMs }) => cpuMs) / 1000 / (rows / 1e6);
  const size = middle('flowdrop', ({ sizeBytes }) => sizeBytes) / middle('duckdb', ({ sizeBytes }) => sizeBytes);
  return [
    atLeast(`${what}: speed beside ${best}, the fastest peer`, REACH_BEST, speed(best), formatRatio),
    atLeast(`${what}: speed beside parquetjs-lite`, REACH_COMMON, speed('parquetjs-lite'), formatRatio),
    { what: `${what}: rows/s of flowdrop`, measured: perSecond('flowdrop') },
    { what: `${what}: CPU seconds a million rows`, measured: cpu.toFixed(1) },
    atMost(`object size / DuckDB's ZSTD, ${formatCount(rows)} rows`, REACH_SIZE, size, formatRatio),
  ];
}

/** Where the time of our way goes, milliseconds a page. */
function describeSteps(set: PageSet, results: readonly WayResult[]): string {
  const names = Object.keys(results[0]?.steps ?? {});
  const totals = names.map((name) => median(results.map(({ steps }) => steps[name] ?? 0)));
  const sum = totals.reduce((total, ms) => total + ms, 0);
  const lines = names.map((name, index) => {
    const ms = totals[index] ?? 0;
    return [name, (ms / set.pages.length).toFixed(2), `${((ms / sum) * 100).toFixed(1)}%`];
  });
  return formatTable(['step of flowdrop-serial', right('ms a page'), right('share')], lines);
}
