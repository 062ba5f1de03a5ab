/**
 * What the page does: each action is read from a form or a JSON document, checked, recorded, and carried out as a
 * command line. Invariants: nothing is done that was not recorded before; every value is of a shape that no command can
 * mistake for an option; a job is one that the daemon knows.
 */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { describeError } from '../../core/errors.ts';
import { ActionLog } from '../../state/action-log.ts';
import { actionLogOf } from '../../state/job-state.ts';
import { RunHistory } from '../../state/run-history.ts';
import type { Ask, AskedCommand } from '../job-view.ts';
import { type ActionAnswer, type ActionFields, dateSchema, type PriceDocument, priceSchema } from './api-shape.ts';
import type { ActionName } from './page-path.ts';
import type { WebOptions } from './web-options.ts';

type Outcome = Omit<ActionAnswer, 'line'>;

/** An action that is ready: what does it, and the command that would. */
interface Ready {
  readonly line: string | null;
  readonly act: () => Outcome | Promise<Outcome>;
}

const REPEATABLE: readonly AskedCommand['command'][] = ['run', 'backfill', 'report', 'verify'];

export class Actions {
  readonly #options: WebOptions;
  readonly #record: ActionLog;

  constructor(options: WebOptions) {
    this.#options = options;
    this.#record = new ActionLog(actionLogOf(options.stateDir));
  }

  /** Never rejects. @param who for the record */
  async do(action: ActionName, fields: ActionFields, who: string): Promise<ActionAnswer> {
    const ready = await this.#prepare(action, fields);
    if (typeof ready === 'string') return { outcome: 'refused', text: ready, line: null };
    const { clock, log } = this.#options;
    const { job = null } = fields;
    const id = randomBytes(9).toString('base64url');
    const entry = { id, at: new Date(clock.now()).toISOString(), who, action, job, line: ready.line };
    // The price of a backfill changes nothing.
    const record = async (outcome: 'asked' | Outcome['outcome'], text: string) => {
      if (action !== 'price') await this.#record.append({ ...entry, outcome, text });
    };
    let outcome: Outcome;
    try {
      await record('asked', '');
      outcome = await ready.act();
      await record(outcome.outcome, outcome.text);
    } catch (error) {
      outcome = { outcome: 'failed', text: describeError(error) };
      await record('failed', outcome.text).catch(() => undefined); // Logged below.
    }
    const line = { event: 'action', action, job: fields.job, who, outcome: outcome.outcome };
    log.info(line, `${who}: ${action}${job === null ? '' : ` ${job}`}: ${outcome.text}`);
    return { ...outcome, line: ready.line };
  }

  /** @returns a sentence if the action cannot be done */
  async #prepare(action: ActionName, fields: ActionFields): Promise<Ready | string> {
    const { ask, reload, view, commands, pathOf } = this.#options;
    if (action === 'reload') {
      return { line: null, act: async () => await reload().then(() => isDone('The job files were read again.')) };
    }
    const job = view().jobs.find(({ name }) => name === fields.job)?.name;
    if (job === undefined) return `${fields.job ?? 'Nothing'} is not a job of this daemon.`;
    const command = (name: AskedCommand['command'], ...options: readonly string[]): Ready => ({
      line: [name, job, ...options].join(' '),
      act: () => ask({ kind: 'command', job, command: name, options }),
    });
    const simply = (request: Ask, line: string | null): Ready => ({ line, act: () => ask(request) });
    const { date, from, to, reason } = fields;
    switch (action) {
      case 'run':
        return command('run');
      case 'stop':
        return simply({ kind: 'stop', job }, null);
      case 'retry': {
        if (fields.run === undefined) return simply({ kind: 'retry', job }, `run ${job}`);
        // The same command as a remembered run.
        const run = await new RunHistory(this.#options.stateDir, job).read(fields.run);
        const [verb, , ...options] = run?.args ?? [];
        const name = REPEATABLE.find((each) => each === verb && each === run?.command);
        // What it was asked to replace then may be something else now.
        return name && !options.includes('--new-store')
          ? command(name, ...options)
          : 'This run cannot be repeated here.';
      }
      case 'price':
      case 'backfill': {
        if (from === undefined || to === undefined || !dateSchema.safeParse(to).success) {
          return 'A backfill needs a first and a last date.';
        }
        const options = [...(fields.mode ? [`--${fields.mode}`] : []), '--from', from, '--to', to];
        const ready = command('backfill', ...options);
        if (action === 'backfill') return ready;
        const act = async () => {
          const price = await commands.read(priceSchema, ['backfill', pathOf(job), ...options, '--dry-run']);
          return { ...isDone(describePrice(price)), price };
        };
        return { ...ready, act };
      }
      case 'audit':
        return date === undefined ? 'Which date?' : command('verify', '--date', date, '--deep');
      case 'send':
        return date === undefined || to === undefined || !to.includes('@')
          ? 'A report is sent again for one date, to one address.'
          : command('report', '--date', date, '--only', to);
      case 'accept': {
        if (date === undefined || !reason) return 'A gap is accepted for one date, with a reason.';
        const options = [`--reason=${reason}`, ...(fields.by ? [`--by=${fields.by}`] : [])];
        const act = async () => {
          await commands.read(z.unknown(), ['gap', 'accept', pathOf(job), date, ...options]);
          return isDone(`The gap of ${date} is accepted.`);
        };
        return { line: ['gap', 'accept', job, date, ...options.map(quote)].join(' '), act };
      }
    }
  }
}

function isDone(text: string): Outcome {
  return { outcome: 'done', text };
}

function describePrice({ total }: PriceDocument): string {
  if (total.dates === 0) return 'There is nothing to fetch for these dates.';
  const rows = total.rows === null ? '' : `, ${total.rows.toLocaleString('en-US')} rows`;
  return `${total.dates} ${total.dates === 1 ? 'date' : 'dates'}${rows}, ${total.requests.toLocaleString('en-US')} requests, about ${Math.ceil(total.seconds)} s.`;
}

/** For a shell. */
function quote(text: string): string {
  return /^[\w=./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
