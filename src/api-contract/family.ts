/**
 * Families: symbols of one underlying that are shown as one. An index has monthly series and, under a root of their own,
 * weeklies; a source may give both the symbol of the index, or each its root. Source: the specifications of SPX, VIX and RUT
 * options (Cboe) and of NDX options (Nasdaq). Pure.
 */

/** The symbols of each family by the one that it is shown under, which is the first of them. */
export type Families = Readonly<Record<string, readonly string[]>>;

export const KNOWN_FAMILIES: Families = {
  SPX: ['SPX', 'SPXW'],
  VIX: ['VIX', 'VIXW'],
  NDX: ['NDX', 'NDXP'],
  RUT: ['RUT', 'RUTW'],
};

/** The symbols of a symbol's family, the one that it is shown under first. */
export function membersOf(symbol: string, families: Families): readonly [string, ...string[]] {
  const [family = symbol, ...others] = Object.values(families).find((members) => members.includes(symbol)) ?? [];
  return [family, ...others];
}

/** The family of the column `symbol`, as SQL for ClickHouse and DuckDB. */
export function writeFamily(families: Families): string {
  const cases = Object.values(families).flatMap(([family, ...others]) =>
    others.map((name) => `WHEN symbol = '${name}' THEN '${family}'`),
  );
  return cases.length === 0 ? 'symbol' : `CASE ${cases.join(' ')} ELSE symbol END`;
}

/** Whether the column `symbol` has a symbol that is shown under another, as SQL. */
export function writeIsRenamed(families: Families): string {
  const names = Object.values(families).flatMap(([, ...others]) => others.map((name) => `'${name}'`));
  return names.length === 0 ? '1 = 0' : `symbol IN (${names.join(', ')})`;
}
