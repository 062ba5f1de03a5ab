/**
 * Random conditions on trades, each as SQL and as a plain function that says what it means: the oracle of the property
 * test. None of them fails on a row that `describeVisible` makes; many fail on others, which tells when those are looked at.
 */
export interface OracleRow {
  readonly id: string;
  readonly symbol: string;
  readonly date: string;
  readonly time: string;
  readonly put_call: string;
  readonly side: string;
  readonly expiration_date: string;
  readonly market_cap: string;
  readonly size: number;
  readonly oi: number;
  readonly price: number;
  readonly strike: number;
}

export interface Filter {
  /** @param table prefix of the columns: empty, or an alias and a dot */
  sql(table: string): string;
  holds(row: OracleRow): boolean;
}

export interface FilterContext {
  readonly random: () => number;
  /** What a subquery without a condition sees. */
  readonly visible: readonly OracleRow[];
  readonly table: string;
}

type TextColumn = 'id' | 'symbol' | 'date' | 'time' | 'put_call' | 'side';
type NumberColumn = 'size' | 'oi' | 'price' | 'strike';

const TEXTS: readonly TextColumn[] = ['id', 'symbol', 'date', 'time', 'put_call', 'side'];
const NUMBERS: readonly NumberColumn[] = ['size', 'oi', 'price', 'strike'];
const MAX_DEPTH = 4;

const COMPARE: Readonly<Record<string, (a: number | string, b: number | string) => boolean>> = {
  '=': (a, b) => a === b,
  '!=': (a, b) => a !== b,
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
};
const OPERATORS = Object.keys(COMPARE);

/** Conditions on columns that both sides of the boundaries can meet, alone or joined by AND, OR and NOT. */
export function createFilter(context: FilterContext, depth = 0): Filter {
  const { random } = context;
  if (depth >= MAX_DEPTH || random() < 0.35) return pick(random, LEAVES)(context);
  const parts = Array.from({ length: 2 + Math.floor(random() * 2) }, () => createFilter(context, depth + 1));
  const join = (word: string) => (table: string) => `(${parts.map((part) => part.sql(table)).join(` ${word} `)})`;
  const kind = random();
  if (kind < 0.4) return { sql: join('AND'), holds: (row) => parts.every((part) => part.holds(row)) };
  if (kind < 0.8) return { sql: join('OR'), holds: (row) => parts.some((part) => part.holds(row)) };
  const [part] = parts as [Filter];
  return { sql: (table) => `NOT (${part.sql(table)})`, holds: (row) => !part.holds(row) };
}

type Leaf = (context: FilterContext) => Filter;

const LEAVES: readonly Leaf[] = [
  compareColumn(NUMBERS),
  compareColumn(NUMBERS),
  compareColumn(TEXTS),
  compareColumn(TEXTS),
  compareArithmetic,
  matchPattern,
  listValues,
  holdAlways,
  reachBeyond,
  reachBeyond,
  failElsewhere,
  failElsewhere,
  failElsewhere,
  compareSubquery,
  findInSubquery,
  chooseByCase,
];

function compareColumn(columns: readonly (TextColumn | NumberColumn)[]): Leaf {
  return ({ random, visible }) => {
    const column = pick(random, columns);
    return compare(
      random,
      (table) => table + column,
      (row) => row[column],
      pick(random, visible)[column],
    );
  };
}

function compareArithmetic({ random }: FilterContext): Filter {
  const value = Math.floor(random() * 200);
  const forms: readonly (readonly [(table: string) => string, (row: OracleRow) => number])[] = [
    [(t) => `${t}size * 2 + ${t}oi`, (row) => row.size * 2 + row.oi],
    [(t) => `${t}size % 7`, (row) => row.size % 7],
    [(t) => `(${t}price + ${t}strike) / 2`, (row) => (row.price + row.strike) / 2],
    [(t) => `abs(${t}size - ${t}oi)`, (row) => Math.abs(row.size - row.oi)],
    [(t) => `length(${t}symbol) + ${t}size`, (row) => row.symbol.length + row.size],
  ];
  const [sql, read] = pick(random, forms);
  return compare(random, sql, read, value);
}

function matchPattern({ random, visible }: FilterContext): Filter {
  const column = pick(random, TEXTS);
  const text = pick(random, visible)[column];
  const head = text.slice(0, 1 + Math.floor(random() * text.length));
  const isHead = random() < 0.5;
  return isHead
    ? { sql: (t) => `${t}${column} LIKE '${head}%'`, holds: (row) => row[column].startsWith(head) }
    : {
        sql: (t) => `${t}${column} NOT LIKE '%${text.slice(-2)}'`,
        holds: (row) => !row[column].endsWith(text.slice(-2)),
      };
}

function listValues({ random, visible }: FilterContext): Filter {
  const column = pick(random, TEXTS);
  const values = Array.from({ length: 1 + Math.floor(random() * 5) }, () => pick(random, visible)[column]);
  const list = values.map((value) => `'${value}'`).join(', ');
  return random() < 0.6
    ? { sql: (t) => `${t}${column} IN (${list})`, holds: (row) => values.includes(row[column]) }
    : { sql: (t) => `${t}${column} NOT IN (${list})`, holds: (row) => !values.includes(row[column]) };
}

/** True of every row there can be, hidden ones included. */
function holdAlways({ random }: FilterContext): Filter {
  const sql = pick(random, [
    (t: string) => `${t}time >= ''`,
    (t: string) => `${t}date < '9999'`,
    (t: string) => `${t}time = ${t}time`,
    (t: string) => `(${t}time > '2026-11-19 12:45:59' OR ${t}time <= '2026-11-19 12:45:59')`,
    (t: string) => `startsWith(${t}time, ${t}date)`,
    () => '1',
    () => '1 = 1',
  ]);
  return { sql, holds: () => true };
}

/** Asks for what lies beyond the boundaries, in several words. */
function reachBeyond({ random }: FilterContext): Filter {
  const bound = pick(random, [
    '2026-11-19 12:45:59',
    '2026-11-19 13:30:00',
    '2026-11-04 13:00:00',
    '2026-11-09 00:00:00',
  ]);
  const forms: readonly Filter[] = [
    { sql: (t) => `${t}time > '${bound}'`, holds: (row) => row.time > bound },
    { sql: (t) => `${t}time < '${bound}'`, holds: (row) => row.time < bound },
    { sql: (t) => `NOT (${t}time <= '${bound}')`, holds: (row) => row.time > bound },
    { sql: (t) => `toDateTime(${t}time) > toDateTime('${bound}')`, holds: (row) => row.time > bound },
    {
      sql: (t) => `toDate(${t}date) >= toDate('${bound.slice(0, 10)}')`,
      holds: (row) => row.date >= bound.slice(0, 10),
    },
    { sql: (t) => `greatest(${t}time, '${bound}') = ${t}time`, holds: (row) => row.time >= bound },
    { sql: (t) => `${t}date || ' 23:59:59' < '${bound}'`, holds: (row) => `${row.date} 23:59:59` < bound },
  ];
  return pick(random, forms);
}

/** Cannot be computed for most hidden rows. */
function failElsewhere({ random, visible }: FilterContext): Filter {
  const row = pick(random, visible);
  const forms: readonly (readonly [(table: string) => string, (row: OracleRow) => number | string, number | string])[] =
    [
      [(t) => `toUInt64(${t}id)`, (r) => Number(r.id), Number(row.id)],
      [(t) => `intDiv(1000, ${t}size)`, (r) => Math.floor(1000 / r.size), Math.floor(1000 / row.size)],
      [(t) => `toString(toDate(${t}expiration_date))`, (r) => r.expiration_date, row.expiration_date],
      [(t) => `toInt32(substring(${t}symbol, 4))`, (r) => Number(r.symbol.slice(3)), Number(row.symbol.slice(3))],
      [(t) => `CAST(${t}market_cap AS Int64) % 10`, (r) => Number(r.market_cap) % 10, 5],
      [(t) => `length(range(toUInt64(${t}size)))`, (r) => r.size, row.size],
      [(t) => `toInt32(if(${t}time > '2026-11-19 12:45:59', 'x', '1'))`, () => 1, 1],
      [(t) => `length(repeat('x', toUInt64(${t}size)))`, (r) => r.size, row.size],
    ];
  const [sql, read, value] = pick(random, forms);
  return compare(random, sql, read, value);
}

function compareSubquery({ random, visible, table }: FilterContext): Filter {
  const column = pick(random, ['size', 'oi'] as const);
  const pickMax = random() < 0.5;
  const values = visible.map((row) => row[column]);
  const value = pickMax ? Math.max(...values) : Math.min(...values);
  const subquery = `(SELECT ${pickMax ? 'max' : 'min'}(${column}) FROM ${table})`;
  const operator = pick(random, OPERATORS);
  return {
    sql: (t) => `${t}${column} ${operator} ${subquery}`,
    holds: (row) => COMPARE[operator]?.(row[column], value) ?? false,
  };
}

function findInSubquery(context: FilterContext): Filter {
  const inner = createFilter(context, MAX_DEPTH - 1);
  const ids = new Set(context.visible.filter((row) => inner.holds(row)).map((row) => row.id));
  const isNegated = context.random() < 0.3;
  const subquery = `(SELECT id FROM ${context.table} WHERE ${inner.sql('')})`;
  return {
    sql: (t) => `${t}id ${isNegated ? 'NOT IN' : 'IN'} ${subquery}`,
    holds: (row) => ids.has(row.id) !== isNegated,
  };
}

function chooseByCase(context: FilterContext): Filter {
  const [when, then, otherwise] = [0, 1, 2].map(() => createFilter(context, MAX_DEPTH - 1)) as [Filter, Filter, Filter];
  return {
    sql: (t) => `CASE WHEN ${when.sql(t)} THEN ${then.sql(t)} ELSE ${otherwise.sql(t)} END`,
    holds: (row) => (when.holds(row) ? then.holds(row) : otherwise.holds(row)),
  };
}

function compare(
  random: () => number,
  sql: (table: string) => string,
  read: (row: OracleRow) => number | string,
  value: number | string,
): Filter {
  const operator = pick(random, OPERATORS);
  const literal = typeof value === 'string' ? `'${value}'` : String(value);
  return {
    sql: (table) => `${sql(table)} ${operator} ${literal}`,
    holds: (row) => COMPARE[operator]?.(read(row), value) ?? false,
  };
}

export function pick<T>(random: () => number, values: readonly T[]): T {
  return values[Math.floor(random() * values.length)] as T; // Callers give at least one.
}
