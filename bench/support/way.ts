/** One way from pages to Parquet, measured in a process of its own: what goes in, what comes out, and starting it. */
import { runChild } from './bench.ts';
import { withFolder } from './product.ts';

export interface WayInput {
  /** Folder of the pages. */
  readonly pages: string;
  /** Parquet file to write. */
  readonly out: string;
  /** Folder for whatever the way needs on disk. */
  readonly scratch: string;
  /** Times the pages are taken, each time with other ids: many rows without fetching many. Only our way knows it. Default: 1. */
  readonly copies?: number;
}

/** Milliseconds of each step, in order. */
export type Steps = Readonly<Record<string, number>>;

export type RunWay = (input: WayInput) => Promise<Steps>;

export interface WayResult {
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly peakBytes: number;
  readonly sizeBytes: number;
  readonly steps: Steps;
}

export const WAYS = ['flowdrop', 'flowdrop-serial', 'duckdb', 'hyparquet-writer', 'parquetjs-lite'] as const;
export type WayName = (typeof WAYS)[number];

/** Heap of the ways that sort in JavaScript, MiB: Node's default is too small for their rows. */
const MAX_HEAP_MIB = 8192;

/** @throws when the process fails; its stderr is in the message */
export async function runWay(name: WayName, input: Omit<WayInput, 'scratch'>): Promise<WayResult> {
  const flags = [`--max-old-space-size=${MAX_HEAP_MIB}`];
  return await withFolder(async (scratch) => {
    const args = [name, JSON.stringify({ ...input, scratch } satisfies WayInput)];
    return JSON.parse(await runChild('child.ts', args, flags)) as WayResult;
  });
}
