/**
 * Remembers what the guard admitted, so that the next page of an export, the same statement with other times, need not be
 * parsed again. Invariant: a remembered statement becomes exactly what the guard would make of it. That holds because
 * only texts are remembered in which nothing can be mistaken: plain characters, no comments, no quotes but those of text
 * literals, no escapes; and because only literals made of digits and the punctuation of times may differ, about whose
 * content no rule of the guard and no parser cares. Everything else goes to the guard.
 */
import type { Guard } from '../../guard/guard.ts';

/** Characters whose meaning does not depend on their neighbours, beside `-` and `/`, which may begin comments. */
const PLAIN_TEXT = /^[\w\s,.()[\]<>=!+*%:'/-]*$/;
const COMMENT_OR_DOUBLED_QUOTE = /--|\/\*|\/\/|''/;
/** A literal that may differ: a date, a time, a number as text. */
const TIME_LITERAL = /' ?\d[\d :.-]{0,40}'/g;
/** Statements that are remembered; an export uses a handful. */
const MAX_REMEMBERED = 256;

/** Literals that stand for others begin here: a number that can pass for a date. */
const FIRST_MARK = 20_000_101;

interface Template {
  /** The admitted text between its time literals. */
  readonly pieces: readonly string[];
}

/** A guard that asks `guard` only about what is new. */
export function rememberAdmitted(guard: Guard): Guard {
  /** By the text without its time literals, in the order of use. */
  const templates = new Map<string, Template>();
  /** Keys that came once: only what comes again is worth a second parsing. */
  const seen = new Set<string>();
  return {
    admit: async (sql, asker) => {
      if (!isPlain(sql)) return await guard.admit(sql, asker);
      const literals = sql.match(TIME_LITERAL) ?? [];
      const key = sql.replace(TIME_LITERAL, "'?'");
      const known = templates.get(key);
      if (known) {
        templates.delete(key);
        templates.set(key, known);
        return fill(known, literals);
      }
      const admitted = await guard.admit(sql, asker);
      if (!seen.delete(key)) {
        seen.add(key);
        if (seen.size > MAX_REMEMBERED) seen.delete(seen.keys().next().value ?? key);
        return admitted;
      }
      const template = await learnTemplate((marked) => guard.admit(marked, asker), sql, literals.length);
      if (template && fill(template, literals) === admitted) {
        templates.set(key, template);
        if (templates.size > MAX_REMEMBERED) templates.delete(templates.keys().next().value ?? key);
      }
      return admitted;
    },
  };
}

function isPlain(sql: string): boolean {
  if (!PLAIN_TEXT.test(sql) || COMMENT_OR_DOUBLED_QUOTE.test(sql)) return false;
  return (sql.split("'").length - 1) % 2 === 0;
}

/** Lets the guard read the statement with literals that tell their places, for two may be equal and change theirs. */
async function learnTemplate(
  admit: (sql: string) => Promise<string>,
  sql: string,
  count: number,
): Promise<Template | undefined> {
  const marks = Array.from({ length: count }, (_, place) => `'${FIRST_MARK + place}'`);
  let place = 0;
  const marked = sql.replace(TIME_LITERAL, () => marks[place++] ?? '');
  const admitted = await admit(marked).catch(() => undefined);
  if (admitted === undefined || !isPlain(admitted)) return undefined;
  const found = admitted.match(TIME_LITERAL) ?? [];
  if (found.length !== count || found.some((mark, at) => mark !== marks[at])) return undefined;
  return { pieces: admitted.split(TIME_LITERAL) };
}

function fill({ pieces }: Template, literals: readonly string[]): string {
  return pieces.map((piece, at) => (at === 0 ? piece : `${literals[at - 1]}${piece}`)).join('');
}
