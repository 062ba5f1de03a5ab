/**
 * What chaos runs read from, and the truth about it: services that live as long as all runs, of a generated session and
 * of the real one; or a table of the run's own, whose rows change while they are read. Ordered by time and by symbol, with
 * and without a scan limit. Row limits are small, so that a session has 20 to 60 pages.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HISTORICAL_PATH } from '../../src/api-contract/published-limits.ts';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { hasRealDay, KEY, REAL_DAY, REAL_DAY_FILE, startService, type TestService } from '../support/flowdrop.ts';
import { createRandom } from '../support/random.ts';
import { isPage } from './api.ts';
import { type Front, startFront } from './front.ts';
import { ODD_CELLS } from './odd-rows.ts';
import { CLOSED, createOtherRows, createSettledRows, NOON, SETTLED, type TableRow } from './rows.ts';
import { ChaosTable } from './table.ts';
import type { Plan } from './trouble.ts';
import { openTruth, type Truth } from './truth.ts';

export interface SourceSettings {
  readonly data: 'generated' | 'real' | 'large' | 'table';
  readonly order: 'time' | 'symbol';
  readonly scanLimit?: number;
}

export interface ChaosSource {
  /** Base address of an entry point. */
  urlOf(api: 'historical' | 'portal'): string;
  /** Environment of a worker. */
  readonly env: Readonly<Record<string, string>>;
  /** What time it is at the source when a run begins. */
  readonly startMs: number;
  readonly date: string;
  /** A table whose rows change. */
  readonly table: ChaosTable | undefined;
  /** Odd cells that the rows have, by name. */
  readonly oddities: readonly string[];
  /** Pages that were answered so far. */
  answeredPages(): number;
  /** The rows that the source has of a date now, without those that belong into the quarantine. */
  readTruth(date: string): Promise<Truth>;
  /** Ids of the rows of a date that belong into the quarantine. */
  quarantined(date: string): readonly string[];
  /** Ends what is of this run alone. */
  close(): Promise<void>;
}

type ServedData = Exclude<SourceSettings['data'], 'table'>;

interface Session {
  readonly date: string;
  readonly startMs: number;
  readonly rowLimit: number;
  readonly args: readonly string[];
}

const GENERATED_DAY = '2026-11-19';
const GENERATED_START = `${GENERATED_DAY}T23:15:00Z`;
const REAL_START = `${REAL_DAY}T21:00:00Z`;
/** The settled day has about 25 pages, and seconds with more rows than an answer may have. */
const TABLE_ROW_LIMIT = 150;
/** What a date may have of rows that are kept out: a thousandth of it. */
const MAX_QUARANTINED = 2;
const MAX_TAKEN_ODDLY = 4;
const generate = (rows: number) =>
  `--generate 1 --generate-rows ${rows} --seed 11 --as-of ${GENERATED_START}`.split(' ');
/** The last page of each has more than a few rows, whatever the order: a page travels gzipped and shows flipped bits. */
const SESSIONS: Readonly<Record<ServedData, Session>> = {
  generated: {
    ...{ date: GENERATED_DAY, startMs: Date.parse(GENERATED_START), rowLimit: 700 },
    args: generate(30_000),
  },
  /** Its drop is above 16 MiB. */
  large: {
    ...{ date: GENERATED_DAY, startMs: Date.parse(GENERATED_START), rowLimit: 20_000 },
    args: generate(500_000),
  },
  real: {
    ...{ date: REAL_DAY, startMs: Date.parse(REAL_START), rowLimit: 50 },
    args: ['--data', REAL_DAY_FILE, '--as-of', REAL_START],
  },
};
/** Two workers with four requests each are served in turn. */
const CONCURRENCY = '2';

/** Services and truths, each started when it is first asked for. */
export class ChaosSources {
  readonly #folder: string;
  readonly #services = new Map<string, Promise<TestService>>();
  readonly #truths = new Map<string, Promise<Truth>>();

  /** @param folder for the rows that were read */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** @param folder of the run */
  async open(settings: SourceSettings, plan: Plan, folder: string): Promise<ChaosSource> {
    const { data } = settings;
    if (data === 'table') return await openTable(settings, plan, folder);
    const { date, startMs } = SESSIONS[data];
    const service = await this.#serve({ ...settings, data });
    const truth = await remember(this.#truths, data, () => this.#readTruth(data));
    const before = service.requests.length;
    return {
      urlOf: (api) => (api === 'portal' ? service.portalUrl : service.url),
      env: service.env,
      ...{ startMs, date, table: undefined, oddities: [] },
      answeredPages: () =>
        service.requests.slice(before).filter(({ status, sql = '' }) => status === 200 && isPage(sql)).length,
      readTruth: async () => truth,
      quarantined: () => [],
      close: async () => undefined,
    };
  }

  async close(): Promise<void> {
    for (const service of this.#services.values()) await (await service).stop();
    for (const truth of this.#truths.values()) (await truth).close();
  }

  #serve({ data, order, scanLimit }: SourceSettings & { readonly data: ServedData }): Promise<TestService> {
    const { rowLimit, args } = SESSIONS[data];
    const limit = scanLimit === undefined ? [] : ['--scan-limit', String(scanLimit)];
    const more = ['--row-limit', String(rowLimit), '--order', order, '--concurrency', CONCURRENCY, ...limit];
    return remember(this.#services, `${data} ${order} ${scanLimit}`, () => startService([...args, ...more]));
  }

  /** The real day is the input file itself. */
  async #readTruth(data: ServedData): Promise<Truth> {
    if (data === 'real') {
      if (!hasRealDay) throw new Error(`there is no ${REAL_DAY_FILE}`);
      return await openTruth(REAL_DAY_FILE);
    }
    const { date, rowLimit } = SESSIONS[data];
    const service = await this.#serve({ data, order: 'time' });
    const rows = await readServedRows(service, date, rowLimit);
    const file = join(this.#folder, `${data}.ndjson`);
    await writeFile(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    return await openTruth(file);
  }
}

async function openTable({ order, scanLimit }: SourceSettings, plan: Plan, folder: string): Promise<ChaosSource> {
  const { rows, oddities } = drawRows(plan);
  const table = await ChaosTable.create(order, rows);
  const front: Front = await startFront({ table, rowLimit: TABLE_ROW_LIMIT, scanLimit, isPage });
  const calendar = join(folder, 'calendar.yaml');
  await writeFile(calendar, `closed: [${CLOSED.join(', ')}]\n`);
  const truths: Truth[] = [];
  const ofDate = (date: string) => table.rows.filter(({ values }) => values['date'] === date);
  return {
    urlOf: () => front.url,
    env: { FLOWDROP_API_KEY: KEY, FLOWDROP_CALENDAR_FILE: calendar },
    ...{ startMs: NOON, date: SETTLED, table, oddities },
    answeredPages: () => front.answered.filter(({ sql }) => isPage(sql)).length,
    async readTruth(date) {
      const sealed = ofDate(date).flatMap((row) => {
        const values = 'sealed' in row ? row.sealed : row.values;
        return values === undefined ? [] : [`${JSON.stringify(values)}\n`];
      });
      const file = join(folder, `truth-${date}.ndjson`);
      await writeFile(file, sealed.join(''));
      const truth = await openTruth(file);
      truths.push(truth);
      return truth;
    },
    quarantined: (date) =>
      ofDate(date)
        .filter((row) => 'sealed' in row && row.sealed === undefined)
        .map(({ id }) => id),
    async close() {
      for (const truth of truths) truth.close();
      await front.close();
      await table.drop();
    },
  };
}

/** The rows of a run's table: with odd cells, if those were drawn. */
function drawRows({ kinds, seed }: Plan): { readonly rows: readonly TableRow[]; readonly oddities: readonly string[] } {
  const rows = [...createSettledRows()];
  if (!kinds.includes('odd-cells')) return { rows: [...rows, ...createOtherRows(false)], oddities: [] };
  const random = createRandom(seed);
  const below = (most: number) => Math.floor(random() * most);
  const refused = ODD_CELLS.filter(({ isQuarantined }) => isQuarantined);
  const taken = ODD_CELLS.filter(({ isQuarantined }) => !isQuarantined);
  const chosen = [
    ...Array.from({ length: below(MAX_QUARANTINED + 1) }, () => refused[below(refused.length)]),
    ...Array.from({ length: 1 + below(MAX_TAKEN_ODDLY) }, () => taken[below(taken.length)]),
  ].filter((cell) => cell !== undefined);
  for (const { make } of chosen) {
    const at = below(rows.length);
    const row = rows[at];
    if (row && !row.isOdd) rows[at] = make(row);
  }
  return { rows: [...rows, ...createOtherRows(false)], oddities: chosen.map(({ name }) => name) };
}

/** All rows of a service with one date, page by page, by id. */
export async function readServedRows(
  service: TestService,
  date: string,
  rowLimit: number,
): Promise<readonly Record<string, unknown>[]> {
  const names = TRADE_COLUMNS.map(({ name }) => name).join(', ');
  const rows: Record<string, unknown>[] = [];
  let page: readonly Record<string, unknown>[];
  do {
    const after = `date = '${date}' AND id > '${rows.at(-1)?.['id'] ?? ''}'`;
    page = await ask(service, `SELECT ${names} FROM RawOptionTrades WHERE ${after} ORDER BY id LIMIT ${rowLimit}`);
    rows.push(...page);
  } while (page.length === rowLimit);
  if (rows.length !== service.rows) throw new Error(`${rows.length} rows were read of ${service.rows}`);
  return rows;
}

async function ask(service: TestService, sql: string): Promise<readonly Record<string, unknown>[]> {
  const response = await fetch(`${service.url}${HISTORICAL_PATH}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: KEY, sql }),
  });
  const answer = (await response.json()) as { readonly data?: readonly Record<string, unknown>[] };
  if (!answer.data) throw new Error(`the service answered ${response.status}: ${JSON.stringify(answer)}`);
  return answer.data;
}

function remember<T>(kept: Map<string, Promise<T>>, key: string, start: () => Promise<T>): Promise<T> {
  const found = kept.get(key) ?? start();
  kept.set(key, found);
  return found;
}
