/**
 * What a condition of a job may look like, so that it can stand in parentheses beside that of a window: it closes what it
 * opens and nothing else, is one expression, and looks at one row at a time. Pure.
 */
import { ResolveFault } from './resolve-fault.ts';
import { JOB_DEFAULTS } from './shape.ts';
import { assertRowByRow, refuseAt } from './sql-clauses.ts';
import { listSqlTokens, WINDOW_MARK } from './sql-tokens.ts';

/**
 * @param where as the job file has it; `undefined` where it has none
 * @returns the condition up to its last word; empty where there is none @throws ResolveFault of `source.where`, saying the text and what to do
 */
export function readCondition(where: string | undefined): string {
  if (where === undefined) return JOB_DEFAULTS.where;
  try {
    const tokens = listSqlTokens(where);
    for (const token of tokens) {
      if (token.text === ';') throw refuseAt(where, token, 'the condition', 'it is one expression, without ";"');
      if (token.kind !== 'window') continue;
      const problem = `${WINDOW_MARK} is added to the condition; leave it out`;
      throw refuseAt(where, token, 'the condition', problem);
    }
    assertRowByRow(where, tokens);
    const last = tokens.at(-1);
    if (last) return where.slice(0, last.at + last.text.length);
  } catch (error) {
    if (error instanceof ResolveFault) throw new ResolveFault(['source', 'where'], error.message);
    throw error;
  }
  throw new ResolveFault(
    ['source', 'where'],
    'has no words; leave it out, or write a condition such as premium > 1000',
  );
}
