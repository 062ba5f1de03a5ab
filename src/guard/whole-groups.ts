/**
 * Checks that each group of a SELECT lies in one window: the keys of its GROUP BY, and the length of its groups. Pure.
 */
import { GRAIN_SECONDS, type Grain } from '../calendar/window.ts';
import { findGroupSeconds, hasTimeZone, nameOfItem } from './group-length.ts';
import { aliasOf, childrenUnder, identifierOf, numberOf, type QueryNode } from './query-tree.ts';
import { refuseSql } from './refusal.ts';

export interface GroupKeys {
  readonly grainSeconds: number;
  readonly timeColumn: string;
  /** The time column and all other columns that GROUP BY must contain. */
  readonly groupKeys: readonly string[];
}

/**
 * Requires as GROUP BY keys the time by which windows are cut, and the columns by which a grain may be split; then each
 * group lies in one window.
 */
export function assertGroups(query: QueryNode, groups: GroupKeys): void {
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
  assertGrain(query, items, groups);
}

/** Whether `key` is the column's name, its position in the SELECT, or the same expression. */
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

/** Group windows end between grains: a longer group would lie in two of them. */
function assertGrain(query: QueryNode, items: readonly QueryNode[], { grainSeconds, timeColumn }: GroupKeys): void {
  const item = items.find((found) => nameOfItem(found) === timeColumn);
  const seconds = item && findGroupSeconds(item, items);
  const hasHaving = childrenUnder(query, 'HAVING').length > 0;
  if (hasHaving && (item === undefined || seconds === undefined || hasTimeZone(item))) {
    throw refuseSql(
      `HAVING hides parts of a group, so "${timeColumn}" must be computed from the column time in a usual way, such as toStartOfHour(toDateTime(time)), without a time zone; leave HAVING out, or compute it that way`,
    );
  }
  if (seconds === undefined || grainSeconds % seconds === 0) return;
  const grains = Object.keys(GRAIN_SECONDS) as Grain[]; // `Object.keys` loses the key type.
  const grain = grains.find((name) => GRAIN_SECONDS[name] === grainSeconds) ?? '';
  const right = grains.find((name) => GRAIN_SECONDS[name] % seconds === 0);
  const advice = right
    ? `write \`grain: ${right}\`, or group by the ${grain} or a part of it`
    : 'no grain has this length; group by the minute, the hour or the day, or by a part that divides it';
  throw refuseSql(
    `${timeColumn}: groups of ${seconds} seconds do not divide \`grain: ${grain}\`, ${grainSeconds} seconds, where windows end; ${advice}`,
  );
}
