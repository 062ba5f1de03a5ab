/**
 * What SQL of a job may look like, so that the rows of its windows are together the rows of the whole date. Invariant:
 * the SQL that passes reads one table, `{window}` restricts its rows and nothing else, and no row of the answer depends
 * on rows of another window: single trades are looked at one by one, groups lie whole in one window. Pure.
 */
import { ResolveFault } from './resolve-fault.ts';
import { findBucketSeconds } from './sql-bucket.ts';
import { type Clause, readClauses, refuseAt, type SqlClauses } from './sql-clauses.ts';
import { isName, isSameSql, listSelectItems, nameOf, type SelectItem, splitAtCommas } from './sql-select.ts';
import { type SqlToken, showSql, WINDOW_MARK } from './sql-tokens.ts';

export const GRAIN_SECONDS = { minute: 60, hour: 3600, day: 86_400 } as const;
export type Grain = keyof typeof GRAIN_SECONDS;

export interface GroupKeys {
  readonly table: string;
  readonly grain: Grain;
  readonly timeColumn: string;
  readonly split: readonly string[];
}

const PLACE_OF_WINDOW = `write it as a condition of its own: WHERE ${WINDOW_MARK} AND (...)`;
/** Columns that the condition of a window names. */
const WINDOW_COLUMNS: ReadonlySet<string> = new Set(['id', 'symbol', 'date', 'time']);
/** Functions that make one value of many rows, in capitals, with their endings. */
const AGGREGATES =
  /^(COUNT|SUM|AVG|MIN|MAX|ANY(_VALUE|HEAVY|LAST)?|FIRST_VALUE|LAST_VALUE|ARG(MIN|MAX)|UNIQ\w*|QUANTILE\w*|MEDIAN\w*|GROUP(UNIQ)?ARRAY\w*|STDDEV\w*|VAR(POP|SAMP)\w*|COVAR\w*|CORR|TOPK\w*|SUMWITHOVERFLOW|SUMKAHAN|AVGWEIGHTED|SUMMAP\w*)(IF|DISTINCT|ORNULL|ORDEFAULT|STATE)*$/;
/** Of these a condition may be one whose AND and OR are not those of WHERE. */
const MISLEADING_IN_WHERE: ReadonlySet<string> = new Set(['CASE', 'XOR']);

/**
 * SQL of single trades: asked in windows cut between any two rows.
 * @returns the SQL up to its last word @throws ResolveFault of `source.sql`
 */
export function readRowSql(sql: string, table: string): string {
  const clauses = readClauses(sql);
  assertTable(clauses, table);
  assertWindow(clauses);
  for (const clause of ['GROUP BY', 'HAVING', 'ORDER BY'] as const) {
    if (!clauses.of.has(clause)) continue;
    throw new ResolveFault(
      ['source', 'sql'],
      `has ${clause}: SQL without \`grain\` is asked in windows cut between any two rows, so it must be a plain SELECT ... FROM ${table} WHERE ${WINDOW_MARK} ...; ${
        clause === 'ORDER BY' ? 'order the drop with `drop.sort`' : 'for groups give a `grain`'
      }`,
    );
  }
  const select = listClause(clauses, 'SELECT');
  const aggregate = select.find(
    (token, index) => isName(token) && select[index + 1]?.text === '(' && isAggregate(select, index),
  );
  if (aggregate) {
    const problem = `${aggregate.text} makes one value of many rows, and windows are cut between any two; for groups give a \`grain\` and a GROUP BY`;
    throw refuseAt(clauses.sql, aggregate, 'SELECT', problem);
  }
  return clauses.sql;
}

/**
 * SQL of groups: whole groups lie in one window when the time that windows are cut by, and the columns that a grain may
 * be split by, are keys of the GROUP BY.
 * @returns the SQL up to its last word @throws ResolveFault of `source.sql` or `source.grain`
 */
export function readGroupSql(sql: string, keys: GroupKeys): string {
  const clauses = readClauses(sql);
  assertTable(clauses, keys.table);
  assertWindow(clauses);
  const groupBy = clauses.of.get('GROUP BY');
  if (groupBy === undefined) {
    throw new ResolveFault(['source', 'sql'], 'has no GROUP BY: SQL with a `grain` must group by it');
  }
  const items = listSelectItems(listClause(clauses, 'SELECT'));
  const grouped = splitAtCommas(groupBy);
  const [first] = groupBy;
  if (first?.value === 'ALL' && groupBy.length === 1) {
    const names = [keys.timeColumn, ...keys.split].join(', ');
    throw refuseAt(clauses.sql, first, 'GROUP BY', `ALL does not say what the keys are; write them: GROUP BY ${names}`);
  }
  for (const name of [keys.timeColumn, ...keys.split]) {
    const item = items.find((found) => found.name === name);
    if (grouped.some((key) => isKeyOf(key, name, item, items))) continue;
    const shown = first ? showSql(clauses.sql, first.at, endOf(groupBy)) : 'nothing';
    throw new ResolveFault(
      ['source', 'sql'],
      `does not group by "${name}", so a group could be torn apart between two windows: GROUP BY has ${shown}; name "${name}" there as a key of its own`,
    );
  }
  assertGrain(clauses, items, keys);
  return clauses.sql;
}

function listClause({ of }: SqlClauses, clause: Clause): readonly SqlToken[] {
  return of.get(clause) ?? [];
}

function endOf(tokens: readonly SqlToken[]): number {
  const last = tokens.at(-1);
  return last ? last.at + last.text.length : 0;
}

/** FROM has the job's table, a name for it perhaps, and FINAL perhaps. */
function assertTable({ sql, of }: SqlClauses, table: string): void {
  const tokens = of.get('FROM') ?? [];
  const allowed = `allowed is FROM ${table} [AS name] [FINAL]; write what another table says as a condition: WHERE ${WINDOW_MARK} AND symbol IN (SELECT ...)`;
  const odd = tokens.find((token) => !isName(token) && token.text !== '.');
  if (odd) {
    const what = odd.text === ',' ? 'a second table' : 'a subquery or table function';
    throw refuseAt(sql, odd, 'FROM', `${what} is not allowed; ${allowed}`);
  }
  const [first, dot] = tokens;
  if (first === undefined || nameOf(first) !== table || dot?.text === '.') {
    const hint = `the job counts the rows of \`source.table\`, ${table}: name that table, without its database, or give the other as \`source.table\``;
    throw new ResolveFault(['source', 'sql'], `in FROM, at ${showSql(sql, first?.at ?? 0)}: is not the table; ${hint}`);
  }
  const rest = tokens.slice(1).filter(({ kind, value }) => kind !== 'word' || value !== 'FINAL');
  const alias = rest[0]?.kind === 'word' && rest[0].value === 'AS' ? rest.slice(1) : rest;
  const [, more] = alias;
  if (more) throw refuseAt(sql, more, 'FROM', `this is not allowed; ${allowed}`);
  assertNamesakes(sql, of.get('WITH') ?? [], table);
}

/** A name of WITH must not stand for the table, or for a column that windows are cut by. */
function assertNamesakes(sql: string, tokens: readonly SqlToken[], table: string): void {
  for (const [index, token] of tokens.entries()) {
    if (!isName(token) || token.depth > 0) continue;
    const isColumn = tokens[index - 1]?.value === 'AS' && WINDOW_COLUMNS.has(nameOf(token));
    if (nameOf(token) !== table && !isColumn) continue;
    const instead = isColumn ? 'column, by which windows are cut' : 'table';
    throw refuseAt(
      sql,
      token,
      'WITH',
      `"${nameOf(token)}" would be this expression instead of the ${instead}; give it another name`,
    );
  }
}

/** `{window}` is one of the conditions that WHERE joins by AND, once in the whole text. */
function assertWindow({ sql, of }: SqlClauses): void {
  const found = [...of].flatMap(([clause, tokens]) =>
    tokens.filter(({ kind }) => kind === 'window').map((token) => ({ clause, token })),
  );
  const [only, second] = found;
  if (only === undefined) throw new ResolveFault(['source', 'sql'], `must contain ${WINDOW_MARK}: ${PLACE_OF_WINDOW}`);
  if (second) {
    const problem = `${WINDOW_MARK} stands in the SQL a second time: what a subquery makes of a part of the date is another value in every window; leave it out there`;
    const inside = found.find(({ clause, token }) => clause !== 'WHERE' || token.depth > 0) ?? second;
    throw refuseAt(sql, inside.token, inside.clause, problem);
  }
  const { clause, token } = only;
  if (clause !== 'WHERE') throw refuseAt(sql, token, clause, `${WINDOW_MARK} must stand in WHERE; ${PLACE_OF_WINDOW}`);
  const where = listClause({ sql, of }, 'WHERE');
  for (const other of where) {
    if (other.depth > 0) continue;
    if (other.kind === 'word' && other.value === 'OR') {
      const problem = `OR beside ${WINDOW_MARK} lets rows of every window into each; put it into parentheses: WHERE ${WINDOW_MARK} AND (... OR ...)`;
      throw refuseAt(sql, other, 'WHERE', problem);
    }
    if ((other.kind === 'word' && MISLEADING_IN_WHERE.has(other.value)) || other.text === '?' || other.text === '->') {
      throw refuseAt(sql, other, 'WHERE', `${other.text} beside ${WINDOW_MARK} must be put into parentheses`);
    }
  }
  const condition = listConditions(where).find((some) => some.includes(token)) ?? [];
  const bare = condition.filter(({ text }) => text !== '(' && text !== ')');
  if (bare.length === 1 && condition[0]?.text !== ')') return;
  const [before] = condition;
  if (before?.value === 'NOT') {
    const problem = `NOT ${WINDOW_MARK} gives each window the rows of all others; ${PLACE_OF_WINDOW}`;
    throw refuseAt(sql, before, 'WHERE', problem);
  }
  throw refuseAt(sql, before ?? token, 'WHERE', `${WINDOW_MARK} is a part of another condition; ${PLACE_OF_WINDOW}`);
}

/** What AND joins outside of brackets; the AND of a BETWEEN is a part of its condition. */
function listConditions(where: readonly SqlToken[]): readonly (readonly SqlToken[])[] {
  const conditions: SqlToken[][] = [[]];
  let betweens = 0;
  for (const token of where) {
    const word = token.depth === 0 && token.kind === 'word' ? token.value : '';
    if (word === 'BETWEEN') betweens += 1;
    if (word === 'AND' && betweens === 0) conditions.push([]);
    else conditions.at(-1)?.push(token);
    if (word === 'AND' && betweens > 0) betweens -= 1;
  }
  return conditions;
}

function isAggregate(tokens: readonly SqlToken[], index: number): boolean {
  const token = tokens[index];
  if (token === undefined || !AGGREGATES.test(nameOf(token).toUpperCase())) return false;
  // A subquery has its own rows, the same ones whatever the window.
  const opened = tokens.filter(
    ({ at, text }, place) => at < token.at && text === '(' && isOpenAt(tokens, place, index),
  );
  return !opened.some((bracket) => /^(SELECT|WITH)$/.test(tokens[tokens.indexOf(bracket) + 1]?.value ?? ''));
}

function isOpenAt(tokens: readonly SqlToken[], open: number, index: number): boolean {
  const depth = tokens[open]?.depth ?? 0;
  return tokens.slice(open + 1, index + 1).every((token) => token.depth > depth);
}

/** The column's name, its place in the SELECT, or the same expression as there. */
function isKeyOf(
  key: readonly SqlToken[],
  name: string,
  item: SelectItem | undefined,
  items: readonly SelectItem[],
): boolean {
  const [only] = key;
  if (only === undefined) return false;
  if (key.length === 1 && isName(only)) return nameOf(only) === name;
  if (key.length === 1 && only.kind === 'number') return item !== undefined && items[Number(only.text) - 1] === item;
  return item !== undefined && isSameSql(key, item.expression);
}

/** Texts of an expression of time other than formats, units and punctuation are time zones, which may shift its groups. */
function hasTimeZone(expression: readonly SqlToken[]): boolean {
  const harmless = /^'(%.*|[^A-Za-z]*|second|minute|hour|day|[0-9]+ \w+)'$/i;
  return expression.some(({ kind, text }) => kind === 'string' && !harmless.test(text));
}

/** Windows of groups end between grains: a longer group would lie in two of them. */
function assertGrain(clauses: SqlClauses, items: readonly SelectItem[], { grain, timeColumn }: GroupKeys): void {
  const item = items.find(({ name }) => name === timeColumn);
  const seconds = item && findBucketSeconds(item, items);
  const [first] = item?.expression ?? [];
  const [having] = listClause(clauses, 'HAVING');
  if (having && (seconds === undefined || hasTimeZone(item?.expression ?? []))) {
    const problem = `HAVING hides parts of a group, so it needs a "${timeColumn}" that is seen to be of the column time, such as toStartOfHour(toDateTime(time)), without a time zone; leave HAVING out, or write that`;
    throw refuseAt(clauses.sql, having, 'HAVING', problem);
  }
  if (item === undefined || seconds === undefined || first === undefined || GRAIN_SECONDS[grain] % seconds === 0)
    return;
  const right = (Object.keys(GRAIN_SECONDS) as Grain[]).find((other) => GRAIN_SECONDS[other] % seconds === 0);
  const advice = right
    ? `write \`grain: ${right}\`, or group by the ${grain} or a part of it`
    : 'no grain is cut so; group by the minute, the hour or the day, or by a part that divides it';
  const problem = `groups of ${seconds} seconds do not divide \`grain: ${grain}\`, ${GRAIN_SECONDS[grain]} seconds, by which windows are cut; ${advice}`;
  throw refuseAt(clauses.sql, first, 'SELECT', `${timeColumn}: ${problem}`);
}
