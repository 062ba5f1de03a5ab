/**
 * The clauses of one outermost SELECT, in their order: an allow-list. Invariant: what comes out reads one table with one
 * WHERE, and has no construct whose rows depend on other rows of the answer; everything else is refused with its place.
 * What is in the clauses is `sql-shape.ts`'s matter. Pure.
 */
import { ResolveFault } from './resolve-fault.ts';
import { listSqlTokens, type SqlToken, showSql } from './sql-tokens.ts';

export const CLAUSES = ['WITH', 'SELECT', 'FROM', 'WHERE', 'GROUP BY', 'HAVING', 'ORDER BY'] as const;
export type Clause = (typeof CLAUSES)[number];

const REQUIRED: readonly Clause[] = ['SELECT', 'FROM', 'WHERE'];

export interface SqlClauses {
  /** Up to its last word: a comment at the end would swallow what is written behind it. */
  readonly sql: string;
  /** Tokens of each clause, without the words that begin it. */
  readonly of: ReadonlyMap<Clause, readonly SqlToken[]>;
}

const NAME_IT = 'if it is the name of a column, write it in back quotes';
const WHOLE_ANSWER = `it looks at the whole answer, and each window is an answer of its own; leave it out (${NAME_IT})`;
const ONE_TABLE =
  'only one table may be read, for windows cut its rows; write what the other table says as a condition: WHERE {window} AND symbol IN (SELECT ...)';
const ONE_SELECT = 'only one SELECT is allowed, for {window} restricts only the one that it stands in; make two jobs';
const SUMS = 'it adds sums over several groups, which windows tear apart; sum them up in what reads the drop';
const ROWS_READ = `it changes which rows are read; put the condition into WHERE, beside {window} (${NAME_IT})`;
const OF_THE_SERVER = `it is not for a job: flowdrop chooses how answers come; leave it out (${NAME_IT})`;

/** Words that no outermost SELECT may have, with what to do. */
const REFUSED: ReadonlyMap<string, string> = new Map([
  ...['JOIN', 'ARRAY', 'PASTE', 'ASOF'].map((word) => [word, ONE_TABLE] as const),
  ...['UNION', 'INTERSECT', 'EXCEPT'].map((word) => [word, ONE_SELECT] as const),
  ...['LIMIT', 'OFFSET', 'FETCH', 'TOP', 'DISTINCT', 'QUALIFY', 'WINDOW', 'INTERPOLATE'].map(
    (word) => [word, WHOLE_ANSWER] as const,
  ),
  ...['ROLLUP', 'CUBE', 'TOTALS', 'GROUPING'].map((word) => [word, SUMS] as const),
  ...['SAMPLE', 'PREWHERE'].map((word) => [word, ROWS_READ] as const),
  ...['FORMAT', 'SETTINGS', 'OUTFILE', 'INTO'].map((word) => [word, OF_THE_SERVER] as const),
]);

/** Words of the above that are functions too, where a parenthesis follows. */
const FUNCTIONS_TOO: ReadonlySet<string> = new Set(['FORMAT', 'ARRAY']);

/** Functions whose value depends on other rows of the answer or on its blocks, in capitals. */
const NEIGHBOUR_FUNCTIONS =
  /^(NEIGHBOR|RUNNING(DIFFERENCE\w*|ACCUMULATE|CONCURRENCY)|ROWNUMBERIN(ALL)?BLOCKS?|BLOCK(NUMBER|SIZE|SERIALIZEDSIZE)|(LAG|LEAD)(INFRAME)?|ROW_NUMBER|(DENSE_|PERCENT_)?RANK|DENSERANK|PERCENTRANK|NTILE|CUME_DIST|NTH_VALUE|NOWINBLOCK|GENERATESERIALID)$/;
const MULTIPLYING_FUNCTIONS = /^(ARRAYJOIN|UNNEST|EXPLODE)$/;

/** @throws ResolveFault of `source.sql`, saying the clause, the text, what is allowed and what to do */
export function readClauses(sql: string): SqlClauses {
  const tokens = withoutEnd(sql, listSqlTokens(sql));
  assertRowByRow(sql, tokens);
  const of = new Map<Clause, SqlToken[]>();
  let open: Clause | undefined;
  let current: SqlToken[] = [];
  for (let index = 0; index < tokens.length; index += 1) {
    const token = tokens[index] as SqlToken; // Within the bounds, as the loop has it.
    const begins = beginsClause(tokens, index);
    if (begins === undefined) {
      if (open === undefined) throw refuseAt(sql, token, 'the beginning', 'it must begin with SELECT or WITH');
      assertAllowed(sql, tokens, index, open);
      current.push(token);
      continue;
    }
    assertInOrder(sql, token, begins, open);
    open = begins;
    current = [];
    of.set(open, current);
    if (begins.includes(' ')) index += 1;
  }
  for (const clause of REQUIRED) {
    if (of.has(clause)) continue;
    throw new ResolveFault(['source', 'sql'], `has no ${clause}; it must be SELECT ... FROM table WHERE {window} ...`);
  }
  const last = tokens.at(-1);
  return { sql: sql.slice(0, last ? last.at + last.text.length : 0), of };
}

/** A fault at a token, with its clause and the text from there on. */
export function refuseAt(sql: string, token: SqlToken, where: string, problem: string): ResolveFault {
  return new ResolveFault(['source', 'sql'], `in ${where}, at ${showSql(sql, token.at)}: ${problem}`);
}

/** One semicolon may end the statement; more would be a second one. */
function withoutEnd(sql: string, tokens: readonly SqlToken[]): readonly SqlToken[] {
  const end = tokens.findIndex((token) => token.text === ';');
  if (end === -1) return tokens;
  const next = tokens[end + 1];
  if (next) throw refuseAt(sql, next, 'the text behind ";"', 'only one statement is allowed; leave the second one out');
  return tokens.slice(0, end);
}

function isKeyword(tokens: readonly SqlToken[], index: number): boolean {
  return tokens[index]?.kind === 'word' && tokens[index - 1]?.text !== '.';
}

function beginsClause(tokens: readonly SqlToken[], index: number): Clause | undefined {
  const token = tokens[index];
  if (token?.depth !== 0 || !isKeyword(tokens, index)) return undefined;
  const next = tokens[index + 1]?.value;
  const text =
    (token.value === 'GROUP' || token.value === 'ORDER') && next === 'BY' ? `${token.value} BY` : token.value;
  return CLAUSES.find((clause) => clause === text);
}

function assertInOrder(sql: string, token: SqlToken, begins: Clause, open: Clause | undefined): void {
  const [now, before] = [CLAUSES.indexOf(begins), open === undefined ? -1 : CLAUSES.indexOf(open)];
  if (now > before) return;
  const where = open ?? 'the beginning';
  if (begins === 'SELECT' && open !== 'FROM') throw refuseAt(sql, token, where, ONE_SELECT);
  if (begins === 'WITH') {
    const what = 'WITH ROLLUP, CUBE, TOTALS, FILL and TIES make rows of other rows, which windows tear apart';
    throw refuseAt(sql, token, where, `${what}; leave it out`);
  }
  throw refuseAt(sql, token, where, `${begins} comes twice or out of order; allowed is ${CLAUSES.join(' ')}`);
}

function assertAllowed(sql: string, tokens: readonly SqlToken[], index: number, clause: Clause): void {
  const token = tokens[index];
  if (token?.depth !== 0 || !isKeyword(tokens, index)) return;
  const advice = REFUSED.get(token.value);
  if (advice === undefined) return;
  if (FUNCTIONS_TOO.has(token.value) && tokens[index + 1]?.text === '(') return;
  // `SELECT * EXCEPT (column)` leaves columns out; before another SELECT it would be seen at that.
  if (token.value === 'EXCEPT' && clause === 'SELECT' && tokens[index + 1]?.value !== 'SELECT') return;
  const name = token.value === 'ARRAY' ? 'ARRAY JOIN' : token.value;
  throw refuseAt(sql, token, clause, `${name} is not allowed: ${advice}`);
}

/** Functions that look at other rows, or make several of one, at any depth. */
export function assertRowByRow(sql: string, tokens: readonly SqlToken[]): void {
  for (const [index, token] of tokens.entries()) {
    if (token.kind !== 'word' && token.kind !== 'name') continue;
    const next = tokens[index + 1];
    const where = nameClause(tokens, index);
    const isWindow = token.value === 'OVER' && token.kind === 'word' && isKeyword(tokens, index);
    if (isWindow && (next?.text === '(' || next?.kind === 'word' || next?.kind === 'name')) {
      const what =
        'OVER is not allowed: a window function looks at other rows, and those of other windows are not there';
      throw refuseAt(sql, token, where, `${what}; compute it in what reads the drop`);
    }
    // `* APPLY(f)` and `* APPLY f` call what they name.
    const isApplied = [tokens[index - 1], tokens[index - 2]].some((before) => before?.value === 'APPLY');
    if (next?.text !== '(' && !isApplied) continue;
    const name = token.value.toUpperCase();
    if (NEIGHBOUR_FUNCTIONS.test(name)) {
      const what = `${token.text} is not allowed: it looks at other rows of the answer, and each window is one of its own`;
      throw refuseAt(sql, token, where, `${what}; compute it in what reads the drop`);
    }
    if (MULTIPLYING_FUNCTIONS.test(name)) {
      const what = `${token.text} is not allowed: it makes several rows of one, which have the same id or are counted twice`;
      throw refuseAt(sql, token, where, `${what}; export the array, or use a function of arrays such as arraySum`);
    }
  }
}

/** The outermost clause that a token is in; a text without any is a condition. */
function nameClause(tokens: readonly SqlToken[], index: number): string {
  for (let place = index; place >= 0; place -= 1) {
    const clause = beginsClause(tokens, place);
    if (clause !== undefined) return clause;
  }
  return 'the condition';
}
