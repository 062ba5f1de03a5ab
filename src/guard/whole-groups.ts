/**
 * Whether the groups of a SELECT lie whole in one window: which keys its GROUP BY has, and how long its groups are. Pure.
 */
import { GRAIN_SECONDS, type Grain } from '../calendar/window.ts';
import { findGroupSeconds, hasTimeZone, nameOfItem } from './group-length.ts';
import { aliasOf, childrenUnder, identifierOf, numberOf, type QueryNode } from './query-tree.ts';
import { refuseSql } from './refusal.ts';

export interface GroupKeys {
  readonly grainSeconds: number;
  readonly timeColumn: string;
  /** The time column and all others that GROUP BY must have. */
  readonly groupKeys: readonly string[];
}

/**
 * Whole groups lie in one window when the time that windows are cut by, and the columns that a grain may be split by, are
 * keys of the GROUP BY.
 */
export function assertGroups(query: QueryNode, groups: GroupKeys): void {
  const grouped = childrenUnder(query, 'GROUP BY');
  if (grouped.length === 0) throw refuseSql('has no GROUP BY: SQL with a `grain` must group by it');
  const items = childrenUnder(query, 'PROJECTION');
  for (const name of groups.groupKeys) {
    const item = items.find((found) => nameOfItem(found) === name);
    if (grouped.some((key) => isKeyOf(key, name, item, items))) continue;
    throw refuseSql(
      `does not group by "${name}", so a group could be torn apart between two windows; name "${name}" in GROUP BY as a key of its own`,
    );
  }
  assertGrain(query, items, groups);
}

/** The column's name, its place in the SELECT, or the same expression as there. */
function isKeyOf(key: QueryNode, name: string, item: QueryNode | undefined, items: readonly QueryNode[]): boolean {
  if (aliasOf(key) !== undefined) return false;
  if (identifierOf(key) === name) return true;
  if (item === undefined) return false;
  const place = numberOf(key);
  return place === undefined ? isSame(key, item, ['alias']) : items[place - 1] === item;
}

function isSame(some: QueryNode, other: QueryNode, except: readonly string[] = []): boolean {
  const attributes = ({ attributes: all }: QueryNode) =>
    JSON.stringify([...all].filter(([key]) => !except.includes(key)));
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

/** Windows of groups end between grains: a longer group would lie in two of them. */
function assertGrain(query: QueryNode, items: readonly QueryNode[], { grainSeconds, timeColumn }: GroupKeys): void {
  const item = items.find((found) => nameOfItem(found) === timeColumn);
  const seconds = item && findGroupSeconds(item, items);
  const hasHaving = childrenUnder(query, 'HAVING').length > 0;
  if (hasHaving && (item === undefined || seconds === undefined || hasTimeZone(item))) {
    throw refuseSql(
      `HAVING hides parts of a group, so it needs a "${timeColumn}" that is seen to be of the column time, such as toStartOfHour(toDateTime(time)), without a time zone; leave HAVING out, or write that`,
    );
  }
  if (seconds === undefined || grainSeconds % seconds === 0) return;
  const grains = Object.keys(GRAIN_SECONDS) as Grain[]; // The type of `Object.keys` forgets them.
  const grain = grains.find((name) => GRAIN_SECONDS[name] === grainSeconds) ?? '';
  const right = grains.find((name) => GRAIN_SECONDS[name] % seconds === 0);
  const advice = right
    ? `write \`grain: ${right}\`, or group by the ${grain} or a part of it`
    : 'no grain is cut so; group by the minute, the hour or the day, or by a part that divides it';
  throw refuseSql(
    `${timeColumn}: groups of ${seconds} seconds do not divide \`grain: ${grain}\`, ${grainSeconds} seconds, by which windows are cut; ${advice}`,
  );
}
