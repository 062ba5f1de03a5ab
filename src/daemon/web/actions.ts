/**
 * What the page does: each action is read from a form of a page or a document of a program, checked, recorded, and
 * carried out as a command line. Invariants: a form without the token of its login, or from a page of another site, does
 * nothing; nothing is done that was not recorded before; every value is of a shape that no command can mistake for an
 * option; a job is one that the daemon knows.
 */

import { randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { z } from 'zod';
import { tryParseJson } from '../../core/atomic-file.ts';
import { describeError } from '../../core/errors.ts';
import type { HeardRequest } from '../../core/http-listener.ts';
import { countOf } from '../../core/units.ts';
import { openActionLog } from '../../state/action-log.ts';
import type { PlanDocument } from '../../state/documents.ts';
import { actionLogOf } from '../../state/job-state.ts';
import { RunHistory } from '../../state/run-history.ts';
import {
  type ActionAnswer,
  type ActionFields,
  type ActionName,
  actionFieldsSchema,
  actionRequestSchema,
  dateSchema,
} from '../shapes.ts';
import type { AskedCommand } from '../state.ts';
import { renderActionResult, TOKEN_SLOT } from './action-form.ts';
import { type Access, isForeign } from './page-access.ts';
import { answerJson, answerPage, type PageAnswer, Refusal } from './page-frame.ts';
import type { WebOptions } from './routes.ts';

type Outcome = Omit<ActionAnswer, 'line'>;

/** An action that is ready: what does it, and the command that would. */
interface Ready {
  readonly line: string | null;
  readonly act: () => Outcome | Promise<Outcome>;
}

/** The largest form has a reason of 500 characters. */
const MAX_BODY_BYTES = 16 * 1024;
const REPEATABLE: readonly AskedCommand['command'][] = ['run', 'backfill', 'report', 'verify'];
const STATUSES = { done: 200, started: 200, refused: 409, failed: 502 } as const;
const OFF = ['ACTIONS_OFF', 'Actions are off', 'FLOWDROP_STATUS_ACTIONS is off: this page is read-only.'] as const;

export function createActions(options: WebOptions, access: Access) {
  const { mayAct, clock, log, daemon, commands, stateDir } = options;
  const actionLog = openActionLog(actionLogOf(stateDir));
  return { fill, answerForm, answerDocument };

  /** Gives a drawn page the token of this answer. */
  function fill(body: string, headers: IncomingHttpHeaders, nowMs: number): string {
    if (!body.includes(TOKEN_SLOT)) return body;
    return body.replaceAll(TOKEN_SLOT, access.issueForm(headers, nowMs));
  }

  /** A form. @param query fields of a button @throws Refusal */
  async function answerForm(action: ActionName, query: URLSearchParams, request: HeardRequest): Promise<PageAnswer> {
    const { headers } = request;
    const nowMs = clock.now();
    if (!mayAct) throw new Refusal(403, OFF);
    if (isForeign(headers)) {
      throw new Refusal(403, ['FOREIGN_FORM', 'Not from this page', 'The form came from a page of another site.']);
    }
    if (!/^application\/x-www-form-urlencoded\b/.test(headers['content-type'] ?? '')) {
      const text = 'A form is application/x-www-form-urlencoded; a program posts to /api/actions.';
      throw new Refusal(415, ['NOT_A_FORM', 'Not a form', text]);
    }
    const form = new URLSearchParams(await readBody(request));
    const token = access.takeForm(form.get('token') ?? '', headers, nowMs);
    if (token === 'used') {
      throw doNothing(409, 'FORM_USED', 'This form was sent already. See what it did before you send another.');
    }
    if (token === 'wrong') {
      const why =
        'The page is too old, or from before the daemon was restarted. Open it again, and repeat what you did.';
      throw doNothing(403, 'FORM_OLD', why);
    }
    const fields = check(actionFieldsSchema, Object.fromEntries([...query, ...form]));
    const answer = await carryOut(action, fields, request);
    const page = renderActionResult(action, fields, answer);
    return answerPage(STATUSES[answer.outcome], fill(page, headers, nowMs));
  }

  /** A program's document: `{"action": "run", "job": "nightly"}`. @throws Refusal */
  async function answerDocument(request: HeardRequest): Promise<PageAnswer> {
    const { headers } = request;
    if (!mayAct) throw new Refusal(403, OFF);
    if (!access.isProgram(headers)) {
      const text = 'Send the token as a bearer token; pages use their forms.';
      throw new Refusal(403, ['NOT_A_PROGRAM', 'Not a program', text]);
    }
    if (!/^application\/json\b/.test(headers['content-type'] ?? '')) {
      throw new Refusal(415, ['NOT_JSON', 'Not JSON', 'The body is application/json.']);
    }
    const { action, ...fields } = check(actionRequestSchema, tryParseJson(await readBody(request)));
    const answer = await carryOut(action, fields, request);
    return answerJson({ ...STATUSES, done: 202, started: 202 }[answer.outcome], answer);
  }

  async function carryOut(
    action: ActionName,
    fields: ActionFields,
    { headers, remote }: HeardRequest,
  ): Promise<ActionAnswer> {
    const ready = await prepare(action, fields);
    if (typeof ready === 'string') return { outcome: 'refused', text: ready, line: null };
    const { line } = ready;
    const { job = null } = fields;
    const who = `${access.nameCaller(headers)} at ${remote}`;
    const id = randomBytes(9).toString('base64url');
    const entry = { id, at: new Date(clock.now()).toISOString(), who, action, job, line };
    // The price of a backfill changes nothing.
    const record = async (outcome: 'asked' | Outcome['outcome'], text: string) => {
      if (action !== 'price') await actionLog.append({ ...entry, outcome, text });
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
    const text = `${who}: ${action}${job === null ? '' : ` ${job}`}: ${outcome.text}`;
    log.info({ event: 'action', action, job: fields.job, who, outcome: outcome.outcome }, text);
    return { ...outcome, line };
  }

  /** @returns a sentence if the action cannot be done */
  async function prepare(action: ActionName, fields: ActionFields): Promise<Ready | string> {
    if (action === 'reload') {
      return {
        line: null,
        act: async () => await daemon.reload().then(() => isDone('The job files were read again.')),
      };
    }
    const job = daemon.view().jobs.find(({ name }) => name === fields.job)?.name;
    if (job === undefined) return `${fields.job ?? 'Nothing'} is not a job of this daemon.`;
    const command = (name: AskedCommand['command'], ...options: readonly string[]): Ready => ({
      line: [name, job, ...options].join(' '),
      act: () => daemon.ask({ job, command: name, options }),
    });
    const { date, from, to, reason } = fields;
    switch (action) {
      case 'run':
        return command('run');
      case 'stop':
        return { line: null, act: () => daemon.ask({ job, command: 'stop' }) };
      case 'retry': {
        if (fields.run === undefined) return command('run');
        // The same command as a remembered run.
        const run = await new RunHistory(stateDir, job).read(fields.run);
        const [verb, , ...options] = run?.args ?? [];
        const name = REPEATABLE.find((each) => each === verb && each === run?.command);
        // What it was asked to replace then may be something else now.
        if (!name || options.includes('--new-store')) return 'This run cannot be repeated here.';
        return command(name, ...options);
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
          const price = await commands.read<PlanDocument>(['backfill', daemon.pathOf(job), ...options, '--dry-run']);
          return { ...isDone(describePrice(price)), price: { dates: price.dates, total: price.total } };
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
          await commands.read(['gap', 'accept', daemon.pathOf(job), date, ...options]);
          return isDone(`The gap of ${date} is accepted.`);
        };
        return { line: ['gap', 'accept', job, date, ...options.map(quote)].join(' '), act };
      }
    }
  }
}

/** @throws Refusal when it is too large, or the caller is gone */
async function readBody(request: HeardRequest): Promise<string> {
  return await request.readBody(MAX_BODY_BYTES).catch(() => {
    const words = ['TOO_LARGE', 'Too large', 'The body is larger than 16 KiB.'] as const;
    throw new Refusal(413, words, { headers: { connection: 'close' } });
  });
}

/** @throws Refusal */
function check<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw doNothing(400, 'BODY_INVALID', `${issue?.path.join('.') || 'The body'}: ${issue?.message}.`);
}

function doNothing(status: number, code: string, text: string): Refusal {
  return new Refusal(status, [code, 'Nothing was done', text]);
}

function isDone(text: string): Outcome {
  return { outcome: 'done', text };
}

function describePrice({ total }: PlanDocument): string {
  if (total.dates === 0) return 'There is nothing to fetch for these dates.';
  const rows = total.rows === null ? '' : `, ${countOf(total.rows, 'row')}`;
  return `${countOf(total.dates, 'date')}${rows}, ${countOf(total.requests, 'request')}, about ${Math.ceil(total.seconds)} s.`;
}

/** For a shell. */
function quote(text: string): string {
  return /^[\w=./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
