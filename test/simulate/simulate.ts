/** One simulated life: what its seed drew happens in order of time, run by run; then it is judged. */

import { closeSecond, OPEN_SECOND } from '../../src/calendar/session.ts';
import { formatSecond, parseWallClock } from '../../src/calendar/wall-clock.ts';
import { planAlteration } from '../chaos/rows.ts';
import type { TradeRow } from '../support/trades.ts';
import { CALM_MS, drawLife, type Evenings, type RowMove } from './draw.ts';
import { judgeLife, type Lived, type TakenInRun, type Verdict } from './judge.ts';
import type { SimulatedRun, World } from './world.ts';

export interface LifeResult extends Verdict {
  readonly seed: number;
  readonly dates: number;
  readonly runs: readonly SimulatedRun[];
  readonly mails: number;
  /** What became of the source's rows. */
  readonly moves: readonly string[];
  readonly story: readonly string[];
  readonly ms: number;
}

/** The end of a session whose rows stay. */
const TAIL_SECONDS = 15 * 60;

/** Events of a run's log that a story has. */
const TOLD: ReadonlySet<string> = new Set([
  ...['audit-skipped', 'audit-failed', 'audit-differs', 'date-failed', 'date-held', 'rows-withdrawn', 'mail-failed'],
  ...['report-failed', 'stage-lost', 'clocks-differ', 'mail-taken-over', 'mail-watched'],
]);

/** @param look sees what there is when the life is over, before its folder is removed */
export async function simulateLife(
  world: World,
  seed: number,
  look: (lived: Lived) => Promise<void> = async () => undefined,
  evenings?: Evenings,
): Promise<LifeResult> {
  const started = performance.now();
  const drawn = drawLife(seed, evenings);
  const { table, mail } = world;
  const life = await world.begin(drawn);
  try {
    await table.restart(drawn.rows, () => life.now());
    const story: string[] = [];
    const moves: string[] = [];
    const tell = (text: string) => story.push(`${new Date(life.now()).toISOString()} ${text}`);
    let lacking = 0;
    const behind = new Set<number>();
    const lag = async (since: string | undefined, kind = '') => {
      lacking = await table.lag(since);
      if (lacking > 0) moves.push(kind);
      tell(since === undefined ? 'the source has all rows' : `${kind}: ${lacking} rows after ${since} are not there`);
    };
    const isOver = (date: string) => life.now() >= parseWallClock(date, closeSecond(date, 'equity', drawn.calendar));
    const apply = async ({ date, move, rows, spread, seed: drawnSeed, to }: RowMove) => {
      if (date === drawn.lagging) return;
      if (move === 'rows-redated') {
        const isTaking = isOver(to) && life.now() < drawn.expiryOf(to) - CALM_MS;
        if (to === date || to === drawn.lagging || !isTaking) return;
      }
      // Without the last rows no source shows that a session is over; `test/flow/clocks.slow.test.ts` has that.
      const until = formatSecond(closeSecond(date, 'equity', drawn.calendar) - TAIL_SECONDS);
      // Rows that leave the lookback or have not come yet would move unseen.
      const isMovable = ({ time }: TradeRow) =>
        String(time) < `${date} ${until}` && String(time) >= `${date} ${formatSecond(OPEN_SECOND)}`;
      const there = table.rows.filter(({ values }) => values['date'] === date && isMovable(values));
      const isSettled = drawn.cared.has(date) && life.now() > drawn.expiryOf(date) - CALM_MS;
      if (there.length === 0 || isSettled) return;
      moves.push(move);
      const alteration = { move, rows, spread, seed: drawnSeed, to, at: { on: 'request', number: 1 } } as const;
      const change = planAlteration(alteration, there);
      await table.change(change);
      const into = move === 'rows-redated' ? ` to ${to}` : '';
      tell(`${date}: ${move}${into}, -${change.remove.length} +${change.add.length}`);
    };
    const runs: SimulatedRun[] = [];
    const mails: TakenInRun[] = [];
    for (const event of drawn.events) {
      life.moveTo(event.atMs);
      if (event.kind === 'move') {
        await apply(event.move);
        continue;
      }
      if (event.kind === 'lag') {
        await lag(event.behind, 'lag at the close');
        continue;
      }
      if (lacking > 0) behind.add(runs.length);
      const before = mail.taken.length;
      const { trouble } = event;
      tell(trouble === undefined ? 'a run without trouble' : 'a run');
      const run = await life.run(
        trouble && {
          ...trouble,
          onRequest: async (request) => {
            const move = trouble.moves.get(request);
            if (move !== undefined) await apply(move);
            if (request === trouble.failover?.request)
              await lag(trouble.failover.behind, 'failover to a replica behind');
          },
        },
      );
      if (trouble?.failover !== undefined) await lag(undefined);
      mails.push(...mail.taken.slice(before).map((taken) => ({ ...taken, run: runs.length })));
      runs.push(run);
      tell(describeRun(run, mail.taken.length - before));
      for (const { event: name, msg } of run.log) if (TOLD.has(String(name))) story.push(`    ${name}: ${msg}`);
    }
    const lived = {
      drawn,
      behind,
      storeFolder: life.storeFolder,
      runs,
      mails,
      versions: (date: string) => table.versions(date),
    };
    const verdict = await judgeLife(lived);
    await look(lived);
    return {
      ...{ ...verdict, seed, dates: drawn.dates.length, runs, mails: mails.length, moves, story },
      ms: performance.now() - started,
    };
  } finally {
    await life.remove();
  }
}

function describeRun({ finished, faults, steps, requests }: SimulatedRun, mails: number): string {
  const { result, error, shortfall } = finished ?? {};
  const dates = result?.dates.map(({ date, status, revision, error: fault }) =>
    [date, status, ...(revision === undefined ? [] : [`r${revision}`]), ...(fault ? [fault.code] : [])].join(' '),
  );
  const audits = Object.entries(result?.audits ?? {}).map(([date, audit]) => `${date} ${audit.result}`);
  return [
    `  ${steps} steps, ${requests} requests, ${mails} mails`,
    finished === undefined ? 'died' : error === undefined ? (shortfall ?? 'done') : String(error),
    ...(faults.length > 0 ? [`faults: ${faults.join(', ')}`] : []),
    ...(dates && dates.length > 0 ? [`dates: ${dates.join(', ')}`] : []),
    ...(audits.length > 0 ? [`audits: ${audits.join(', ')}`] : []),
  ].join('; ');
}
