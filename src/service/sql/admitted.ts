/**
 * Remembers statements that the guard admitted. The next page of an export is the same statement with other times, so
 * it need not be parsed again. Invariant: the result is exactly what the guard would return for the statement. This
 * holds for two reasons. Only unambiguous texts are remembered: plain characters, no comments, no quotes except those
 * of text literals, no escapes. And only literals of digits and time punctuation may differ; no guard rule and no
 * parser looks at their content. Everything else goes to the guard.
 */
import type { PoolRequest } from '../../engine/pool.ts';
import type { Guard } from '../../guard/guard.ts';

/** Characters whose meaning does not depend on their neighbors, plus `-` and `/`, which may begin comments. */
const PLAIN_TEXT = /^[\w\s,.()[\]<>=!+*%:'/-]*$/;
const COMMENT_OR_DOUBLED_QUOTE = /--|\/\*|\/\/|''/;
/** A literal that may differ: a date, a time, or a number as text. */
const TIME_LITERAL = /' ?\d[\d :.-]{0,40}'/g;
/** Statements to remember; an export uses only a few. */
const MAX_REMEMBERED = 256;

/** First of the placeholder literals: a number that also parses as a date. */
const FIRST_MARK = 20_000_101;

/** An admitted text between its time literals. */
type Template = readonly string[];

/** Wraps `guard`, and calls it only for new statements. */
export function rememberAdmitted(guard: Guard): Guard {
  /**
   * By the text without its time literals, least recently used first; `undefined` for a text that was seen once: only a
   * repeated statement is worth a second parse.
   */
  const templates = new Map<string, Template | undefined>();
  return {
    admit: async (sql, asker) => {
      if (!isPlain(sql)) return await guard.admit(sql, asker);
      const literals = sql.match(TIME_LITERAL) ?? [];
      const key = sql.replace(TIME_LITERAL, "'?'");
      const known = templates.get(key);
      const admitted = known ? fill(known, literals) : await guard.admit(sql, asker);
      const learnt = !known && templates.has(key) ? await learnTemplate(guard, sql, asker) : undefined;
      const template = known ?? (learnt && fill(learnt, literals) === admitted ? learnt : undefined);
      templates.delete(key); // Moves it to the end.
      templates.set(key, template);
      if (templates.size > MAX_REMEMBERED) templates.delete(templates.keys().next().value ?? key);
      return admitted;
    },
  };
}

function isPlain(sql: string): boolean {
  if (!PLAIN_TEXT.test(sql) || COMMENT_OR_DOUBLED_QUOTE.test(sql)) return false;
  return (sql.split("'").length - 1) % 2 === 0;
}

/** Has the guard rewrite the statement with distinct literals: two equal literals could swap places unnoticed. */
async function learnTemplate(guard: Guard, sql: string, asker: PoolRequest): Promise<Template | undefined> {
  const marks = (sql.match(TIME_LITERAL) ?? []).map((_, place) => `'${FIRST_MARK + place}'`);
  let place = 0;
  const marked = sql.replace(TIME_LITERAL, () => marks[place++] ?? '');
  const admitted = await guard.admit(marked, asker).catch(() => undefined);
  if (admitted === undefined || !isPlain(admitted)) return undefined;
  const found = admitted.match(TIME_LITERAL) ?? [];
  if (found.length !== marks.length || found.some((mark, at) => mark !== marks[at])) return undefined;
  return admitted.split(TIME_LITERAL);
}

function fill(pieces: Template, literals: readonly string[]): string {
  return pieces.map((piece, at) => (at === 0 ? piece : `${literals[at - 1]}${piece}`)).join('');
}
