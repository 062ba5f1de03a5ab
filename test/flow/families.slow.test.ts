/**
 * Symbols of one underlying, through the command line: whichever of them the source and the chain name, a watchlist, its
 * exposure and a query have one of each family.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { FlowReport } from '../../src/report/model.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, readManifest, workerEnvironment } from '../support/flowdrop.ts';
import { serveHttp } from '../support/http-server.ts';
import { writeJob } from '../support/jobs.ts';
import { startRawSource, toRaw } from '../support/raw-source.ts';
import { createTrade, type TradeRow } from '../support/trades.ts';

const DAY = '2026-11-19';
const NOW = `${DAY}T23:15:00Z`;
const SPOT = 6_700;
/** Each contract: root, open interest, right, strike, expiration. */
const CONTRACTS = [
  ['SPX', 1_000, 'CALL', 6_700, '2026-12-18'],
  ['SPXW', 500, 'CALL', 6_700, '2026-12-18'],
  ['SPXW', 2_000, 'PUT', 6_600, '2026-11-27'],
  ['NDXP', 300, 'CALL', 6_800, '2026-11-27'],
  ['XYZ', 100, 'CALL', 6_700, '2026-12-18'],
  ['XYZW', 50, 'PUT', 6_650, '2026-11-27'],
  ['SPY', 700, 'CALL', 6_700, '2026-12-18'],
] as const;
const HEADS: Readonly<Record<string, string>> = { SPXW: 'SPX', NDXP: 'NDX', XYZW: 'XYZ' };
const headOf = (root: string) => HEADS[root] ?? root;
const asIs = (root: string) => root;
type Contract = (typeof CONTRACTS)[number];

const { folder, keep } = useCleanups();
const engine = await keep(openEmbeddedEngine());

const nameSeries = ([root, , right, strike, expires]: Contract) =>
  `${root}${expires.slice(2).replaceAll('-', '')}${right.slice(0, 1)}${String(strike * 1_000).padStart(8, '0')}`;
const gammaOf = ([, , right]: Contract) => (right === 'CALL' ? 0.002 : 0.001);

/** A print of each contract, one of them cancelled. @param nameOf what the source calls a root */
function listPrints(nameOf: (root: string) => string, hasSeries: boolean): readonly TradeRow[] {
  const prints = CONTRACTS.map((contract, at) => {
    const [root, oi, put_call, strike, expiration_date] = contract;
    return createTrade(at, {
      ...{ symbol: nameOf(root), date: DAY, time: `${DAY} 12:00:0${at}`, put_call, strike, expiration_date, oi },
      ...{ option_symbol: hasSeries ? nameSeries(contract) : '', gamma: gammaOf(contract), iv: 0.2 },
      ...{ underlying_price: SPOT, delta: put_call === 'CALL' ? 0.5 : -0.5, side: 'ASK', sentiment: 'BULLISH' },
      ...{ size: 10, price: 2 * (at + 1), premium: 2_000 * (at + 1) },
    });
  });
  const gone = { ...prints[1], id: 'gone', price: 3, premium: 3_000 };
  return [...prints, gone, { ...gone, id: 'cancel', option_activity_type: 'CANC', time: `${DAY} 12:10:00` }];
}

const FAMILIES = 'families:\n  XYZ: [XYZ, XYZW]';

/** A store with the day's drop and the report of it. @param cwd that may have a chain of the date */
async function readReport(cwd: string, prints: readonly TradeRow[], families = FAMILIES): Promise<FlowReport> {
  const source = await keep(startRawSource(engine, prints.map(toRaw), { rowLimit: 1_000, now: NOW }));
  const reports = 'reports:\n  - template: flow\n    to: [desk@example.com]\n    symbols: [SPXW, NDX, XYZ, SPY]';
  const job = await writeJob(cwd, { schedule: families, reports });
  await flowdrop(['run', job], { cwd, env: source.env, code: 0 });
  const preview = ['--json', 'report', job, '--preview', join(cwd, 'preview')];
  const [report] = JSON.parse((await flowdrop(preview, { cwd, env: source.env })).stdout) as FlowReport[];
  if (report === undefined) throw new Error('no report');
  return report;
}

/** What of a report depends on how symbols are named. */
function pickNamed({ exposure, watchlist, topSymbols, topContracts, biggestTrades, drivers, volatility }: FlowReport) {
  const rows = watchlist.map(({ members: _, ...row }) => row);
  return { exposure, rows, topSymbols, topContracts, biggestTrades, drivers, volatility };
}

it('has one line for a family, whatever the source calls its symbols', async () => {
  const cwd = await folder();
  const apart = await readReport(cwd, listPrints(asIs, true));
  expect(apart.watchlist.map(({ symbol, members }) => [symbol, members])).toEqual([
    ['SPX', ['SPXW']],
    ['NDX', ['NDXP']],
    ['XYZ', ['XYZW']],
    ['SPY', undefined],
  ]);
  const [spx] = apart.watchlist;
  expect(spx?.flow).toMatchObject({ trades: 3, total: 12_000 });
  const dollars = SPOT ** 2;
  expect(spx?.exposure?.callGex).toBeCloseTo(0.002 * 1_500 * dollars, 0);
  expect(spx?.exposure?.putGex).toBeCloseTo(-0.001 * 2_000 * dollars, 0);
  expect(spx?.exposure).toMatchObject({ contracts: 3, callWall: 6_700, putWall: 6_600 });
  const one = await readReport(await folder(), listPrints(headOf, true));
  expect(pickNamed(one)).toEqual(pickNamed(apart));
  const bare = await readReport(await folder(), listPrints(asIs, false));
  expect(pickNamed(bare)).toEqual(pickNamed(apart));
  const parted = await readReport(await folder(), listPrints(asIs, true), 'families:\n  SPX: [SPX]');
  expect(parted.watchlist.map(({ symbol, flow }) => [symbol, flow?.trades])).toEqual([
    ['SPXW', 2],
    ['NDX', 1],
    ['XYZ', 1],
    ['SPY', 1],
  ]);

  const ask = async (sql: string) => {
    const answer = await flowdrop(['query', sql, '--from-store', 'drops', '--format', 'json'], { cwd, code: 0 });
    return answer.stdout;
  };
  const sums = 'SELECT family, count() AS n FROM trades GROUP BY family ORDER BY family';
  expect(JSON.parse(await ask(sums))).toEqual([
    { family: 'NDX', n: 1 },
    { family: 'SPX', n: 5 },
    { family: 'SPY', n: 1 },
    { family: 'XYZ', n: 1 },
    { family: 'XYZW', n: 1 },
  ]);
  const chosen = "SELECT symbol, family FROM trades WHERE family = 'SPX' AND symbol = 'SPXW' LIMIT 1";
  expect(JSON.parse(await ask(chosen))).toEqual([{ symbol: 'SPXW', family: 'SPX' }]);
  expect(await ask('SELECT * FROM trades LIMIT 1')).not.toContain('"family"');
  const summed = "SELECT sum(trades) AS n FROM trades_summary WHERE family = 'SPX'";
  expect(JSON.parse(await ask(summed))).toEqual([{ n: 3 }]);

  const checked = await flowdrop(['check', join(cwd, 'nightly.yaml')], { cwd });
  expect(checked.stdout.replace(/\s+/g, ' ')).toContain('a watchlist names SPXW: its line includes SPX');
  const mail = await readFile(join(cwd, 'preview', 'flow-1.txt'), 'utf8');
  expect(mail.replace(/\s+/g, ' ')).toContain('SPX includes SPXW. NDX includes NDXP. XYZ includes XYZW.');
}, 300_000);

/** Answers chains as `answer` says, or with a status. @returns the symbols it was asked for */
async function runChain(
  cwd: string,
  symbols: string,
  answer: (
    symbol: string,
  ) => readonly (readonly [symbol: string, contract: Contract, isNameless?: true])[] | number | undefined,
  code = 0,
): Promise<readonly string[]> {
  const asked: string[] = [];
  const { url } = await keep(
    serveHttp(async (request, response) => {
      const { symbol } = JSON.parse(await text(request)) as { symbol: string };
      asked.push(symbol);
      const given = answer(symbol) ?? 404;
      const found = typeof given === 'number' ? undefined : given;
      const data = found?.map(([name, contract, isNameless]) => {
        const [, open_interest, put_call, strike, expiration_date] = contract;
        const series = {
          symbol: name,
          option_symbol: isNameless ? null : nameSeries(contract),
          expiration_date,
          put_call,
          strike,
        };
        return { ...series, open_interest, iv: 0.2, gamma: gammaOf(contract), delta: put_call === 'CALL' ? 0.5 : -0.5 };
      });
      const headers = { 'content-type': 'application/json', date: new Date(NOW).toUTCString() };
      response.writeHead(typeof given === 'number' ? given : 200, headers);
      response.end(JSON.stringify(found === undefined ? { errorCode: 'SYMBOL_NOT_FOUND' } : { data, meta: {} }));
    }),
  );
  const job = join(cwd, 'chains.yaml');
  await writeFile(
    job,
    `name: chains\nsource:\n  api: chain\n  symbols: [${symbols}]\ndrop:\n  to: drops\n  dataset: option-chain\n`,
  );
  const run = await flowdrop(['backfill', job, '--from', DAY, '--to', DAY], { cwd, env: workerEnvironment(url, url) });
  expect(run.code, run.stderr).toBe(code);
  // The first one is asked twice: for the clock, and for its chain.
  return [...new Set(asked)].sort();
}

it('has the chain of a family, whichever of its names the API wants', async () => {
  const prints = listPrints(asIs, true).filter(({ symbol }) => symbol !== 'SPX');
  const chainOf = (nameOf: (root: string) => string) => (symbol: string) => {
    const found = CONTRACTS.filter(([root]) => nameOf(root) === symbol);
    return found.length === 0 ? undefined : found.map((contract) => [nameOf(contract[0]), contract] as const);
  };
  const together = await folder();
  expect(await runChain(together, 'SPX, SPY', chainOf(headOf))).toEqual(['SPX', 'SPY']);
  const first = await readReport(together, prints);
  const [spx] = first.watchlist;
  expect(spx?.exposure).toMatchObject({ contracts: 3, isWholeChain: true, callWall: 6_700, putWall: 6_600 });
  for (const symbols of ['SPX, SPY', 'SPXW, SPX, SPY']) {
    const apart = await folder();
    expect(await runChain(apart, symbols, chainOf(asIs))).toEqual(['SPX', 'SPXW', 'SPY']);
    expect(pickNamed(await readReport(apart, prints))).toEqual(pickNamed(first));
  }
  const under = await folder();
  const asked = await runChain(under, 'SPX, SPXW', (symbol) =>
    symbol === 'SPXW' ? chainOf(headOf)('SPX') : undefined,
  );
  expect(asked).toEqual(['SPX', 'SPXW']);
  expect((await readReport(under, prints)).watchlist[0]?.exposure).toEqual(spx?.exposure);
  // The chain has one of the roots only, whatever is asked for: the other has the contracts that traded.
  const half = await folder();
  await runChain(half, 'SPX', () => [['SPX', CONTRACTS[0]]]);
  const partly = (await readReport(half, prints)).watchlist[0]?.exposure;
  expect(partly).toEqual({ ...spx?.exposure, isWholeChain: false });
  // One without option symbols has all contracts of the family, two of them as one: none that traded is added.
  const nameless = await folder();
  await runChain(nameless, 'SPX', (symbol) =>
    symbol === 'SPX' ? CONTRACTS.slice(0, 3).map((contract) => [symbol, contract, true] as const) : undefined,
  );
  const all = (await readReport(nameless, prints)).watchlist[0]?.exposure;
  expect(all).toMatchObject({ contracts: 2, isWholeChain: true });
  // A symbol that nobody named may be refused; one that the job names is missed.
  const conditions: string[] = [];
  for (const [symbols, status] of [
    ['SPX', 400],
    ['SPX', 403],
    ['SPX, SPXW', 404],
    ['SPXW', 404],
  ] as const) {
    const refused = await folder();
    const named = symbols.split(',')[0];
    const code = symbols === 'SPX, SPXW' ? 3 : 0;
    await runChain(refused, symbols, (symbol) => (symbol === named ? [[symbol, CONTRACTS[0]]] : status), code);
    conditions.push((await readManifest(join(refused, 'drops'), DAY, 'option-chain')).condition);
  }
  expect(conditions).toEqual(['available', 'available', 'degraded', 'available']);
}, 300_000);
