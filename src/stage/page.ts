/** A page on its way into the stage, and what is said of one that does not fit. Pure. */
import { describeError, Fault } from '../core/errors.ts';
import { CLICKHOUSE_CODES, EngineFault } from '../engine/fault.ts';
import type { Job } from '../job/job.ts';

export interface StagedPage {
  readonly data: Uint8Array;
  readonly rows: number;
  readonly firstRow: Readonly<Record<string, unknown>> | undefined;
}

/** A field that no row has is told by name, with what there is instead. @throws Fault `PAGE_REFUSED` */
export function assertColumns({ source }: Job, date: string, window: string, page: StagedPage): void {
  // Of the fields of a snapshot nothing is promised: what is absent is null, or what was asked for.
  if (source.kind === 'snapshots') return;
  const missing = source.columns.filter((column) => !(column.name in (page.firstRow ?? {})));
  if (missing.length === 0) return;
  throw new Fault(
    'PAGE_REFUSED',
    `${date} ${window}: the answer has no field ${missing.map((column) => `"${column.name}"`).join(', ')}; it has ${Object.keys(page.firstRow ?? {}).join(', ')}`,
    { hint: 'For SQL of your own, list what it returns under `types`, `time` and `split`.' },
  );
}

export function refusePage(date: string, window: string, page: StagedPage, cause: unknown): Fault {
  const head = Buffer.from(page.data.subarray(0, 200)).toString('utf8');
  return new Fault(
    'PAGE_REFUSED',
    `${date} ${window}: the answer's rows do not fit the columns: ${firstLine(cause)}; it begins ${head}`,
    {
      cause,
      hint: 'Nothing of this page was kept. If the API has changed a type, tell us; else run again.',
    },
  );
}

/** What the engine says, without its stack of functions. */
function firstLine(error: unknown): string {
  return describeError(error).split(/: while executing|\n/)[0] ?? '';
}

/** Name of the field in ClickHouse's "Unknown field found while parsing JSONEachRow format: x". */
export function readUnknownField(error: unknown): string | undefined {
  if (!(error instanceof EngineFault) || error.clickhouseCode !== CLICKHOUSE_CODES.INCORRECT_DATA) return undefined;
  return /Unknown field found while parsing \w+ format: (.+?)(?:: \(at row \d+\)|\s*: While|$)/s
    .exec(error.message)?.[1]
    ?.trim();
}
