/**
 * What the page does: each action is read from a form or a JSON document, checked, recorded, and handed to the daemon or
 * to a child command. Invariants: nothing is done that was not recorded before; every value is of a shape that no command
 * can mistake for an option; a job is one that the daemon knows.
 */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../../core/clock.ts';
import { describeError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { ActionLog } from '../../state/action-log.ts';
import type { RunHistory } from '../../state/run-history.ts';
import { RUN_COMMANDS, type RunRecord } from '../../state/run-record.ts';
import type { PriceDocument } from '../documents.ts';
import type { Ask, AskAnswer, DaemonView } from '../job-view.ts';
import type { ActionName } from './action-path.ts';
import { type ActionAnswer, type ActionFields, dateSchema } from './api-shape.ts';

/** What the daemon does when it is asked. */
export interface Doer {
  ask(ask: Ask): Promise<AskAnswer>;
  /** What a backfill would cost. @throws Fault */
  price(job: string, options: readonly string[]): Promise<PriceDocument>;
  /** @throws Fault */
  acceptGap(job: string, date: string, options: readonly string[]): Promise<void>;
  /** Reads the job files again. */
  reload(): Promise<void>;
}

interface ActionDeps {
  readonly doer: Doer;
  readonly actions: ActionLog;
  readonly history: (job: string) => RunHistory;
  readonly clock: Clock;
  readonly log: Log;
}

/** An action that is ready: what does it, and the command that would. */
interface Ready {
  readonly line: string | null;
  readonly act: () => Promise<Omit<ActionAnswer, 'line'>>;
}

export class Actions {
  readonly #deps: ActionDeps;

  constructor(deps: ActionDeps) {
    this.#deps = deps;
  }

  /** Never rejects. @param who for the record */
  async do(action: ActionName, fields: ActionFields, view: DaemonView, who: string): Promise<ActionAnswer> {
    const ready = await this.#prepare(action, fields, view);
    if ('outcome' in ready) return ready;
    const { clock, log, actions } = this.#deps;
    const entry = {
      id: randomBytes(9).toString('base64url'),
      ...{ at: new Date(clock.now()).toISOString(), who, action, job: fields.job ?? null, line: ready.line },
    };
    let outcome: ActionAnswer;
    try {
      // The price of a backfill changes nothing.
      if (action !== 'price') await actions.append({ ...entry, outcome: 'asked', text: '' });
      outcome = { ...(await ready.act()), line: ready.line };
      if (action !== 'price') await actions.append({ ...entry, outcome: outcome.outcome, text: outcome.text });
    } catch (error) {
      outcome = { outcome: 'failed', text: describeError(error), line: ready.line };
      await actions.append({ ...entry, outcome: 'failed', text: outcome.text }).catch(() => undefined); // Logged below.
    }
    const line = { event: 'action', action, job: fields.job, who, outcome: outcome.outcome };
    log.info(line, `${who}: ${action}${fields.job === undefined ? '' : ` ${fields.job}`}: ${outcome.text}`);
    return outcome;
  }

  async #prepare(action: ActionName, fields: ActionFields, view: DaemonView): Promise<Ready | ActionAnswer> {
    const { doer } = this.#deps;
    if (action === 'reload') {
      const act = async () => {
        await doer.reload();
        return { outcome: 'done', text: 'The job files were read again.' } as const;
      };
      return { line: null, act };
    }
    const job = view.jobs.find(({ name }) => name === fields.job)?.name;
    if (job === undefined) return refuse(`${fields.job ?? 'Nothing'} is not a job of this daemon.`);
    const ask = (request: Ask, line: string | null): Ready => ({ line, act: async () => await doer.ask(request) });
    const command = (name: 'run' | 'backfill' | 'verify' | 'report', options: readonly string[]) =>
      ask({ kind: 'command', job, command: name, options }, [name, job, ...options].join(' '));
    const { date, from, to, reason } = fields;
    switch (action) {
      case 'run':
        return command('run', []);
      case 'stop':
        return ask({ kind: 'stop', job }, null);
      case 'retry':
        return fields.run === undefined
          ? ask({ kind: 'retry', job }, `run ${job}`)
          : await this.#repeat(job, fields.run, command);
      case 'price':
      case 'backfill': {
        if (from === undefined || to === undefined || !dateSchema.safeParse(to).success) {
          return refuse('A backfill needs a first and a last date.');
        }
        const options = [...(fields.mode ? [`--${fields.mode}`] : []), '--from', from, '--to', to];
        if (action === 'backfill') return command('backfill', options);
        const act = async () => {
          const price = await doer.price(job, options);
          return { outcome: 'done', text: describePrice(price), price } as const;
        };
        return { line: ['backfill', job, ...options].join(' '), act };
      }
      case 'audit':
        return date === undefined ? refuse('Which date?') : command('verify', ['--date', date, '--deep']);
      case 'send':
        return date === undefined || to === undefined || !to.includes('@')
          ? refuse('A report is sent again for one date, to one address.')
          : command('report', ['--date', date, '--only', to]);
      case 'accept': {
        if (date === undefined || !reason) return refuse('A gap is accepted for one date, with a reason.');
        const options = [`--reason=${reason}`, ...(fields.by ? [`--by=${fields.by}`] : [])];
        const act = async () => {
          await doer.acceptGap(job, date, options);
          return { outcome: 'done', text: `The gap of ${date} is accepted.` } as const;
        };
        return { line: ['gap', 'accept', job, date, ...options.map(quote)].join(' '), act };
      }
    }
  }

  /** The same command as a remembered run. */
  async #repeat(
    job: string,
    id: string,
    command: (name: 'run' | 'backfill' | 'verify' | 'report', options: readonly string[]) => Ready,
  ): Promise<Ready | ActionAnswer> {
    const run = await this.#deps.history(job).read(id);
    const [verb, , ...options] = run?.args ?? [];
    const name = REPEATABLE.find((each) => each === verb && each === run?.command);
    // What it was asked to replace then may be something else now.
    if (!run || !name || options.includes('--new-store')) return refuse('This run cannot be repeated here.');
    return command(name, options);
  }
}

const REPEATABLE = RUN_COMMANDS.filter((command) => command !== 'stage') as readonly Exclude<
  RunRecord['command'],
  'stage'
>[];

function describePrice({ total }: PriceDocument): string {
  if (total.dates === 0) return 'There is nothing to fetch for these dates.';
  const rows = total.rows === null ? '' : `, ${total.rows.toLocaleString('en-US')} rows`;
  return `${total.dates} ${total.dates === 1 ? 'date' : 'dates'}${rows}, ${total.requests.toLocaleString('en-US')} requests, about ${Math.ceil(total.seconds)} s.`;
}

function refuse(text: string): ActionAnswer {
  return { outcome: 'refused', text, line: null };
}

/** For a shell. */
function quote(text: string): string {
  return /^[\w=./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
