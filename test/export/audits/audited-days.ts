/** Days that are sealed and audited run by run, in one process: a real engine that is the source's table and the stage. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { listSessions, NO_OVERRIDE } from '../../../src/calendar/session.ts';
import type { Engine } from '../../../src/engine/engine.ts';
import { openDates, runExport } from '../../../src/export/export.ts';
import type { SqlJob } from '../../../src/job/job.ts';
import { dropKey } from '../../../src/ledger/layout.ts';
import { Ledger } from '../../../src/ledger/ledger.ts';
import { auditDrop } from '../../../src/seal/audit.ts';
import { auditHistory } from '../../../src/seal/audit-dataset.ts';
import { discardStages, listStages } from '../../../src/stage/stage-table.ts';
import type { RunResult } from '../../../src/state/run-result.ts';
import { openDirectoryStore } from '../../../src/store/directory.ts';
import { type ApiRow, readWithDuckDb } from '../../support/drop.ts';
import { createEngineSource, createTradesTable, type EngineSource } from '../../support/engine-source.ts';
import { parseSqlJob } from '../../support/jobs.ts';
import { createKeptLog } from '../../support/log.ts';
import { createRun } from '../../support/run.ts';
import { DATE, type TradeRow } from '../../support/trades.ts';

export const LIMIT = 100;
/** Of the lookback all but these are closed: no run counts dates without rows. */
export const DATES = ['2026-11-17', '2026-11-18', DATE] as const;
const CALENDAR = {
  ...NO_OVERRIDE,
  closed: new Set(listSessions('2026-11-02', DATE).filter((date) => !DATES.some((one) => one === date))),
};
const NOW = Date.parse('2026-11-20T03:00:00Z');
const GROUPS =
  'SELECT symbol, substring(time, 1, 16) AS minute, sum(premium) AS value FROM RawOptionTrades WHERE {window} GROUP BY symbol, minute';

export interface DayOptions {
  readonly api?: 'historical' | 'portal';
  readonly rule?: SqlJob['audit'];
  readonly url?: string;
  readonly where?: string;
  readonly grouped?: boolean;
  readonly scanLimit?: number;
  readonly signal?: AbortSignal;
  /** Before the n-th request of the audit; may throw a fault, or change the table. */
  readonly beforeAudit?: (request: number, sql: string) => unknown;
}

export type AuditedDays = Awaited<ReturnType<typeof openAuditedDays>>;

/** @param engine shared by the days of a file */
export async function openAuditedDays(engine: Engine) {
  const folder = await mkdtemp(join(tmpdir(), 'flowdrop-audit-'));
  const store = await openDirectoryStore(join(folder, 'store'));
  await createTradesTable(engine);
  for (const date of await listStages(engine)) await discardStages(engine, date);
  const log: Readonly<Record<string, unknown>>[] = [];
  let source: EngineSource;
  let before = 0;
  let job = jobOf({});
  const manifest = async (date: string) => await new Ledger(store, job.drop.dataset).manifest(date);
  const rows = async (date: string) => await readWithDuckDb(join(folder, 'store', dropKey(job.drop.dataset, date)));
  return {
    store,
    /** Records of all runs. */
    log,
    /** Of the last run. */
    get source() {
      return source;
    },
    async run(options: DayOptions = {}): Promise<RunResult> {
      const { api = 'historical', url, scanLimit, signal, beforeAudit } = options;
      job = jobOf(options);
      let auditing = false;
      let request = 0;
      const asking = createEngineSource(engine, {
        ...{ rowLimit: LIMIT, meta: api === 'historical', nowMs: NOW },
        ...(scanLimit === undefined ? {} : { scanLimit }),
        before: async (sql) => {
          if (!auditing) return;
          request += 1;
          await beforeAudit?.(request, sql);
        },
      });
      source = { ...asking, url: url ?? asking.url };
      before = 0;
      const kept = createKeptLog();
      const parts = { job, engine, store, source, folder, log: kept.log, calendar: CALENDAR, signal };
      const context = await createRun(parts);
      await context.limits.load();
      try {
        const { result, audit } = await runExport({
          ...context,
          onEvent: (event) => {
            if (event.kind !== 'phase' || event.phase !== 'auditing') return;
            auditing = true;
            before = source.asked.length;
          },
        });
        return (await audit?.()) ?? result;
      } finally {
        if (!auditing) before = source.asked.length;
        log.push(...kept.records);
      }
    },
    /** Requests of the last run from its audit on. */
    auditRequests: () => source.asked.length - before,
    moveTo: (row: TradeRow, date: string): TradeRow => ({
      ...row,
      date,
      time: String(row['time']).replace(DATE, date),
      id: `${date}-${String(row['id'])}`,
    }),
    manifest,
    entry: async (date: string) => (await new Ledger(store, job.drop.dataset).conditions()).entries.get(date),
    rows,
    /** Every value of every row of the source is in the drop, and no other row but those that vanished. */
    async expectEqual(date: string, vanished: readonly string[] = []) {
      const names = job.source.columns.map(({ name }) => `\`${name}\``).join(', ');
      const wanted = await engine.rows<ApiRow>(
        `SELECT ${names} FROM RawOptionTrades WHERE date = '${date}' ORDER BY id`,
      );
      const found = (await rows(date)).toSorted((a, b) => (String(a['id']) < String(b['id']) ? -1 : 1));
      const isVanished = ({ id }: ApiRow) => vanished.includes(String(id));
      expect(found.filter((row) => !isVanished(row))).toEqual(wanted);
      expect(found.filter(isVanished)).toHaveLength(vanished.length);
    },
    /** What `verify --deep` finds, history included. */
    async verify(date: string): Promise<readonly string[]> {
      const deps = { ledger: new Ledger(store, job.drop.dataset), engine, folder: join(folder, 'verify') };
      const { findings, manifest: read } = await auditDrop(deps, date);
      if (read === undefined) return findings;
      const deep = await openDates(await createRun({ job, engine, store, source, folder })).compare?.(read, deps);
      return [...findings, ...(await auditHistory(deps, read)).findings, ...(deep ?? [])];
    },
    async close() {
      await store.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function jobOf({ api = 'historical', rule = 'repair', where, grouped }: DayOptions): SqlJob {
  const sql = grouped
    ? `, sql: "${GROUPS}", grain: minute, time: minute, split: [symbol], types: {value: double}`
    : where === undefined
      ? ''
      : `, where: ${where}`;
  return parseSqlJob(
    'job.yaml',
    `name: trades\nsource: {api: ${api}${sql}}\naudit: ${rule}\ndrop: {to: out, dataset: trades}\n`,
  );
}
