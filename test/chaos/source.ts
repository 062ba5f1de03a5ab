/**
 * What chaos runs read from: services that live as long as all runs, and the truth about what they serve. A generated
 * session and the real one, tables ordered by time and by symbol, with and without a scan limit. Row limits are small, so
 * that a session has 30 to 60 pages.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HISTORICAL_PATH } from '../../src/wire/limits.ts';
import { TRADE_COLUMNS } from '../../src/wire/trade.ts';
import { hasRealDay, KEY, REAL_DAY, REAL_DAY_FILE, startService, type TestService } from '../support/flowdrop.ts';
import { openTruth, type Truth } from './truth.ts';

export interface SourceSettings {
  readonly data: 'generated' | 'real' | 'large';
  readonly order: 'time' | 'symbol';
  readonly scanLimit?: number;
}

export interface ChaosSource {
  readonly service: TestService;
  readonly date: string;
  readonly truth: Truth;
}

interface Session {
  readonly date: string;
  readonly rowLimit: number;
  readonly args: readonly string[];
}

const GENERATED_DAY = '2026-11-19';
const generate = (rows: number) => [
  '--generate',
  '1',
  '--generate-rows',
  String(rows),
  '--seed',
  '11',
  '--as-of',
  `${GENERATED_DAY}T23:15:00Z`,
];
/** The last page of each has more than a few rows, whatever the order: a page travels gzipped and shows flipped bits. */
const SESSIONS: Readonly<Record<SourceSettings['data'], Session>> = {
  generated: { date: GENERATED_DAY, rowLimit: 700, args: generate(30_000) },
  /** Its drop is above 16 MiB, and so uploaded in parts. */
  large: { date: GENERATED_DAY, rowLimit: 20_000, args: generate(500_000) },
  real: { date: REAL_DAY, rowLimit: 50, args: ['--data', REAL_DAY_FILE, '--as-of', '2016-06-01T21:00:00Z'] },
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

  async open(settings: SourceSettings): Promise<ChaosSource> {
    const { date } = SESSIONS[settings.data];
    const truth = await remember(this.#truths, settings.data, () => this.#readTruth(settings.data));
    return { service: await this.#serve(settings), date, truth };
  }

  async close(): Promise<void> {
    for (const service of this.#services.values()) await (await service).stop();
    for (const truth of this.#truths.values()) (await truth).close();
  }

  #serve({ data, order, scanLimit }: SourceSettings): Promise<TestService> {
    const { rowLimit, args } = SESSIONS[data];
    const limit = scanLimit === undefined ? [] : ['--scan-limit', String(scanLimit)];
    const more = ['--row-limit', String(rowLimit), '--order', order, '--concurrency', CONCURRENCY, ...limit];
    return remember(this.#services, `${data} ${order} ${scanLimit}`, () => startService([...args, ...more]));
  }

  /** The real day is the input file itself; a generated one is read from its service page by page, by id. */
  async #readTruth(data: SourceSettings['data']): Promise<Truth> {
    if (data === 'real') {
      if (!hasRealDay) throw new Error(`there is no ${REAL_DAY_FILE}`);
      return await openTruth(REAL_DAY_FILE);
    }
    const { date, rowLimit } = SESSIONS[data];
    const service = await this.#serve({ data, order: 'time' });
    const lines: string[] = [];
    for (let last = ''; ; ) {
      const rows = await ask(
        service,
        `SELECT ${TRADE_COLUMNS.map(({ name }) => name).join(', ')} FROM RawOptionTrades WHERE date = '${date}' AND id > '${last}' ORDER BY id LIMIT ${rowLimit}`,
      );
      lines.push(...rows.map((row) => `${JSON.stringify(row)}\n`));
      if (rows.length < rowLimit) break;
      last = String(rows.at(-1)?.['id']);
    }
    if (lines.length !== service.rows) throw new Error(`${lines.length} rows were read of ${service.rows}`);
    const file = join(this.#folder, `${data}.ndjson`);
    await writeFile(file, lines.join(''));
    return await openTruth(file);
  }
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
