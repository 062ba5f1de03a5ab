/**
 * Checks that each group of a SELECT lies in one window: the keys of its GROUP BY, and the groups of its time. Which seconds
 * are one group, the engine computes from the job's own expression, over two days of times that are made here; of one that it
 * cannot compute nothing is known, and the run checks its groups. Invariant: nothing is computed that the guard would not let
 * every caller compute.
 */
import { GRAIN_SECONDS, type Grain } from '../calendar/window.ts';
import { EngineFault } from '../engine/engine-fault.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { listDepths, type SqlToken } from './canonical-text.ts';
import {
  aliasOf,
  attributesOf,
  childrenUnder,
  functionOf,
  identifierOf,
  numberOf,
  type ParserRows,
  type TreeNode,
  walkTree,
} from './engine-tree.ts';
import { namesHostZone, readFunctionList } from './functions.ts';
import { refuseSql } from './refusal.ts';

export interface GroupKeys {
  readonly grainSeconds: number;
  readonly timeColumn: string;
  /** The time column and all other columns that GROUP BY must contain. */
  readonly groupKeys: readonly string[];
}

interface GroupedSelect {
  readonly query: TreeNode;
  /** Of the canonical text that the tree describes. */
  readonly tokens: readonly SqlToken[];
}

/**
 * Requires as GROUP BY keys the time by which windows are cut, and the columns by which a grain may be split; then each
 * group lies in one window.
 */
export async function assertGroups(engine: ParserRows, select: GroupedSelect, groups: GroupKeys): Promise<void> {
  const { query } = select;
  const grouped = childrenUnder(query, 'GROUP BY');
  if (grouped.length === 0) throw refuseSql('has no GROUP BY: SQL with a `grain` must group by it');
  const items = childrenUnder(query, 'PROJECTION');
  for (const name of groups.groupKeys) {
    const item = items.find((found) => nameOfItem(found) === name);
    if (grouped.some((key) => isKeyOf(key, name, item, items))) continue;
    throw refuseSql(
      `does not group by "${name}", so a group could be split between two windows; name "${name}" in GROUP BY as a separate key`,
    );
  }
  await assertGrain(engine, select, groups);
}

/** Whether `key` is the column's name, its position in the SELECT, or the same expression. */
function isKeyOf(key: TreeNode, name: string, item: TreeNode | undefined, items: readonly TreeNode[]): boolean {
  if (aliasOf(key) !== undefined) return false;
  if (identifierOf(key) === name) return true;
  if (item === undefined) return false;
  const place = numberOf(key);
  return place === undefined ? isSame(key, item, ['alias']) : items[place - 1] === item;
}

function isSame(some: TreeNode, other: TreeNode, except: readonly string[] = []): boolean {
  const attributes = (node: TreeNode) =>
    JSON.stringify([...attributesOf(node)].filter(([key]) => !except.includes(key)));
  return (
    some.kind === other.kind &&
    attributes(some) === attributes(other) &&
    some.children.length === other.children.length &&
    some.children.every((child, index) => {
      const match = other.children[index];
      return match !== undefined && isSame(child, match);
    })
  );
}

/** The server's zone is not known: one of whole hours, and one with a half. */
const ZONES = ['UTC', 'Asia/Kolkata'];

/** Group windows end between grains: a longer group would lie in two of them. */
async function assertGrain(
  engine: ParserRows,
  select: GroupedSelect,
  { grainSeconds, timeColumn }: GroupKeys,
): Promise<void> {
  const grain = GRAINS.find((name) => GRAIN_SECONDS[name] === grainSeconds) ?? 'minute';
  const time = await describeTime(engine, select, timeColumn);
  const found: (Groups | undefined)[] = [];
  for (const zone of ZONES) found.push(time && (await computeGroups(engine, time, zone)));
  const [groups] = found;
  if (groups !== undefined && found.every((each) => each?.[grain])) {
    const right = GRAINS.find((name) => !groups[name]);
    const advice = right
      ? `write \`grain: ${right}\`, or group by the ${grain} or a part of it`
      : 'no grain has this length; group by the minute, the hour or the day, or by a part that divides it';
    const length = groups.seconds > GRAIN_SECONDS.day ? 'more than a day' : `${groups.seconds} seconds`;
    throw refuseSql(
      `${timeColumn}: groups of ${length} do not divide \`grain: ${grain}\`, ${grainSeconds} seconds, where windows end; ${advice}`,
    );
  }
  const isSure = found.every((each) => each?.[grain] === 0);
  if (childrenUnder(select.query, 'HAVING').length === 0 || isSure) return;
  throw refuseSql(
    `HAVING hides parts of a group, so "${timeColumn}" must be computed from the column time in a usual way, such as toStartOfHour(toDateTime(time)), without a time zone; leave HAVING out, or compute it that way`,
  );
}

/** The length of the longest group, and how many lie in two windows, by grain. */
type Groups = Readonly<Record<Grain | 'seconds', number>>;

const GRAINS = Object.keys(GRAIN_SECONDS) as Grain[]; // `Object.keys` loses the key type.
/** In the middle of a week and a month. The number of the second day is a prime: few intervals begin with it. */
const FIRST_SECOND = "toDateTime('2026-10-20 00:00:00')";
const TIME_COLUMNS: readonly string[] = ['time', 'date'];
/** The column `time` as the API has it, and as a table may have it. */
const TIMES = [`toString(${FIRST_SECOND} + number)`, `${FIRST_SECOND} + number`];
const LIMITS = 'max_execution_time = 5, max_memory_usage = 1000000000';

/** @param time SQL of items of the SELECT @returns `undefined` if the engine cannot compute them */
async function computeGroups(engine: ParserRows, time: TimeText, zone: string): Promise<Groups | undefined> {
  const torn = GRAINS.map((name) => {
    const grain = GRAIN_SECONDS[name];
    return `countIf(intDiv(first_second, ${grain}) != intDiv(last_second, ${grain})) AS ${name}`;
  });
  for (const own of TIMES) {
    const rows = `SELECT number, ${own} AS time, substring(${TIMES[0]}, 1, 10) AS date FROM numbers(${2 * GRAIN_SECONDS.day})`;
    const groups = `SELECT count() AS all_seconds, min(number) AS first_second, max(number) AS last_second
      FROM (SELECT number, ${time.items} FROM (${rows}) AS ${time.table}) GROUP BY ${time.key}`;
    try {
      const [found] = await engine.rows<Groups>(
        `SELECT max(all_seconds) AS seconds, ${torn.join(', ')} FROM (${groups}) SETTINGS session_timezone = ${quoteString(zone)}, ${LIMITS}`,
      );
      return found;
    } catch (error) {
      if (!(error instanceof EngineFault)) throw error;
    }
  }
  return undefined;
}

interface TimeText {
  /** The time's item of the SELECT, and those that it refers to. */
  readonly items: string;
  readonly key: string;
  /** Name of the table in them. */
  readonly table: string;
}

/** @returns `undefined` if the time depends on more than columns of time, or on what callers may not read and call */
async function describeTime(
  engine: ParserRows,
  { query, tokens }: GroupedSelect,
  timeColumn: string,
): Promise<TimeText | undefined> {
  const functions = await readFunctionList(engine);
  const items = childrenUnder(query, 'PROJECTION');
  const needed = new Set(items.filter((item) => nameOfItem(item) === timeColumn));
  // The set grows while it is read.
  for (const item of needed) {
    for (const node of walkTree(item)) {
      const called = functionOf(node);
      const name = lastPart(identifierOf(node));
      const others = items.filter((other) => name !== undefined && nameOfItem(other) === name);
      const isUnknown = name !== undefined && others.length === 0 && !TIME_COLUMNS.includes(name);
      const isZone = namesHostZone(attributesOf(node).get('constant_value') ?? '');
      if (isUnknown || isZone || /^(QUERY|UNION|TABLE_FUNCTION|MATCHER)$/.test(node.kind)) return undefined;
      if (called !== undefined && !functions.isAllowed(called)) return undefined;
      for (const other of others) needed.add(other);
    }
  }
  const texts = splitItems(tokens);
  if (needed.size === 0 || texts.length !== items.length) return undefined;
  const [table] = childrenUnder(query, 'JOIN TREE');
  return {
    items: texts.filter((_text, place) => needed.has(items[place] ?? query)).join(', '),
    key: quoteIdentifier(timeColumn),
    table: quoteIdentifier((table && (aliasOf(table) ?? identifierOf(table))) ?? ''),
  };
}

/** The texts of the items of the outermost SELECT. */
function splitItems(tokens: readonly SqlToken[]): readonly string[] {
  const depths = listDepths(tokens);
  const find = (word: string) => tokens.findIndex(({ text }, place) => depths[place] === 0 && text === word);
  const [first, end] = [find('SELECT') + 1, find('FROM')];
  const ends = [...tokens.keys()].filter((k) => k > first && k < end && depths[k] === 0 && tokens[k]?.text === ',');
  return [...ends, end].map((to, k) =>
    tokens
      .slice(k === 0 ? first : (ends[k - 1] ?? 0) + 1, to)
      .map(({ text }) => text)
      .join(''),
  );
}

/** Name of a SELECT column in the answer; empty for an expression without a name. */
export function nameOfItem(item: TreeNode): string {
  return aliasOf(item) ?? lastPart(identifierOf(item)) ?? '';
}

/** A column's name without its table. */
function lastPart(identifier: string | undefined): string | undefined {
  return identifier?.split('.').at(-1);
}
