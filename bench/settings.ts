/**
 * What each setting of the Parquet writer costs and saves: one stage, written once for every variant of the settings.
 * The file sizes hold anywhere; the times are those of the writing statement alone.
 */
import { mkdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { asyncBufferFromFile, parquetMetadataAsync } from 'hyparquet';
import { parseWindow } from '../src/calendar/window.ts';
import { formatTable } from '../src/cli/terminal/text.ts';
import { formatBytes, formatCount } from '../src/core/units.ts';
import { openEmbeddedEngine } from '../src/engine/embedded.ts';
import type { Engine } from '../src/engine/engine.ts';
import { listDropColumns, writeParquet } from '../src/seal/write-parquet.ts';
import { readEnvelope } from '../src/source/envelope.ts';
import { openStage, type Stage } from '../src/stage/stage.ts';
import { formatRatio, median, type RunBench, say } from './support/bench.ts';
import { fetchPages, type PageSet, readBenchJob } from './support/pages.ts';
import { withFolder } from './support/product.ts';

type Settings = Readonly<Record<string, string | number>>;

/** Names are short for the table; every variant changes the shipped settings only by what it lists. */
const VARIANTS: readonly (readonly [string, Settings])[] = [
  ['as shipped', {}],
  ['no bloom filters', { output_format_parquet_write_bloom_filter: 0 }],
  ['bloom filters of 6 bits', { output_format_parquet_bloom_filter_bits_per_value: 6 }],
  ['no page index', { output_format_parquet_write_page_index: 0 }],
  ['row groups of 64 Ki', { output_format_parquet_row_group_size: 65_536, max_block_size: 65_536 }],
  ['row groups of 512 Ki', { output_format_parquet_row_group_size: 524_288 }],
  ['blocks of 8 Ki', { max_block_size: 8192 }],
  ['blocks of 128 Ki', { max_block_size: 131_072 }],
  ['dictionaries to 256 KiB', { output_format_parquet_max_dictionary_size: 262_144 }],
  ['dictionaries to 1 MiB', { output_format_parquet_max_dictionary_size: 1_048_576 }],
  ['ZSTD level 1', { output_format_compression_level: 1 }],
  ['ZSTD level 5', { output_format_compression_level: 5 }],
  ['ZSTD level 9', { output_format_compression_level: 9 }],
  ['no bloom, ZSTD level 5', { output_format_parquet_write_bloom_filter: 0, output_format_compression_level: 5 }],
];

export const benchSettings: RunBench = async ({ rows, repeat }) =>
  await withFolder(async (folder) => {
    const set = await fetchPages(join(folder, 'pages'), rows);
    await mkdir(join(folder, 'engine'));
    const engine = await openEmbeddedEngine({ path: join(folder, 'engine') });
    try {
      const stage = await stagePages(engine, set);
      const measured = new Map<string, { ms: number[]; bytes: number; bloom: number; groups: number }>();
      // The first write reads the stage from disk: it counts for nobody.
      await writeVariant(engine, stage, {}, join(folder, 'variant.parquet'));
      for (let round = 1; round <= repeat; round += 1) {
        for (const [name, settings] of VARIANTS) {
          say(`settings: ${name}, ${round} of ${repeat}`);
          const path = join(folder, 'variant.parquet');
          const ms = await writeVariant(engine, stage, settings, path);
          const { size } = await stat(path);
          const earlier = measured.get(name)?.ms ?? [];
          measured.set(name, { ms: [...earlier, ms], bytes: size, ...(await readFooter(path)) });
        }
      }
      return describe(set, measured, repeat);
    } finally {
      await engine.close();
    }
  });

async function stagePages(engine: Engine, set: PageSet): Promise<Stage> {
  const stage = await openStage(engine, await readBenchJob(), set.date, '');
  for (const { path, window } of set.pages) {
    await stage.put(parseWindow(set.date, window), readEnvelope(await readFile(path)));
  }
  return stage;
}

/** @returns milliseconds of the statement that writes the file; the checksum that follows it is not counted */
async function writeVariant(engine: Engine, stage: Stage, settings: Settings, path: string): Promise<number> {
  const job = await readBenchJob();
  const columns = listDropColumns(job.source.columns, []);
  const tail = Object.entries(settings).map(([name, value]) => `, ${name} = ${value}`);
  let ms = 0;
  const writer: Pick<Engine, 'command' | 'rows'> = {
    async command(sql) {
      const started = performance.now();
      // Of a setting given twice the last counts.
      await engine.command(sql + tail.join(''));
      ms = performance.now() - started;
    },
    rows: async () => [],
  };
  await writeParquet(writer as Engine, job, { table: stage.table, duplicates: 0 }, columns, path); // It calls only these two.
  return ms;
}

async function readFooter(path: string): Promise<{ bloom: number; groups: number }> {
  const { row_groups } = await parquetMetadataAsync(await asyncBufferFromFile(path));
  const chunks = row_groups.flatMap(({ columns }) => columns);
  const bloom = chunks.reduce((sum, { meta_data }) => sum + (meta_data?.bloom_filter_length ?? 0), 0);
  return { bloom, groups: row_groups.length };
}

function describe(
  set: PageSet,
  measured: ReadonlyMap<string, { ms: readonly number[]; bytes: number; bloom: number; groups: number }>,
  repeat: number,
): string {
  const [[, shipped] = []] = measured;
  const base = { ms: median(shipped?.ms ?? []), bytes: shipped?.bytes ?? 0 };
  const lines = [...measured].map(([name, { ms, bytes, bloom, groups }]) => [
    name,
    formatBytes(bytes),
    formatRatio(bytes / base.bytes),
    formatBytes(bloom),
    formatCount(groups),
    formatRatio(median(ms) / base.ms),
    `${(median(ms) / set.pages.length).toFixed(2)}`,
  ]);
  const titles = ['settings', 'file', 'size', 'bloom filters', 'row groups', 'time', 'ms a page'];
  return [
    `Settings of the Parquet writer: ${formatCount(set.rows)} rows (medians of ${repeat})`,
    '',
    formatTable(
      titles.map((title, index) => ({ title, align: index === 0 ? ('left' as const) : ('right' as const) })),
      lines,
    ),
    '',
    'size and time: against the settings as shipped. time: of the statement that writes the file.',
  ].join('\n');
}
