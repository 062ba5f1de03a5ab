/**
 * Functions and clauses that look at several rows, or turn one row into several: windows split those rows. Tables of
 * data and two checks. Pure.
 */
import { childrenUnder, functionOf, type QueryNode, walkQuery } from './query-tree.ts';
import { refuseSql } from './refusal.ts';

const COMPUTE_LATER = 'compute it when you read the drop';
/** Functions whose value depends on other rows of the answer or on its blocks, in capitals. */
const NEIGHBOUR_FUNCTIONS =
  /^(NEIGHBOR|RUNNING(DIFFERENCE\w*|ACCUMULATE|CONCURRENCY)|ROWNUMBERIN(ALL)?BLOCKS?|BLOCK(NUMBER|SIZE|SERIALIZEDSIZE)|(LAG|LEAD)(INFRAME)?|ROW_NUMBER|(DENSE_|PERCENT_)?RANK|DENSERANK|PERCENTRANK|NTILE|CUME_DIST|NTH_VALUE|NOWINBLOCK|GENERATESERIALID)$/;
const MULTIPLYING_FUNCTIONS = /^(ARRAYJOIN|UNNEST|EXPLODE)$/;
/** Aggregate functions with their suffixes, in capitals. */
const AGGREGATES =
  /^(COUNT|SUM|AVG|MIN|MAX|ANY(_VALUE|HEAVY|LAST)?|FIRST_VALUE|LAST_VALUE|ARG(MIN|MAX)|UNIQ\w*|QUANTILE\w*|MEDIAN\w*|GROUP(UNIQ)?ARRAY\w*|STDDEV\w*|VAR(POP|SAMP)\w*|COVAR\w*|CORR|TOPK\w*|SUMWITHOVERFLOW|SUMKAHAN|AVGWEIGHTED|SUMMAP\w*)(IF|DISTINCT|ORNULL|ORDEFAULT|STATE)*$/;

/** Refuses functions that look at other rows, or turn one row into several, at any depth. */
export function assertRowByRow(query: QueryNode): void {
  for (const node of walkQuery(query, 'subqueries')) {
    const name = functionOf(node);
    if (name === undefined) continue;
    if (node.attributes.get('function_type') === 'window') {
      throw refuseSql(
        `OVER is not allowed, at ${name}: a window function uses other rows, and rows of other windows are missing; ${COMPUTE_LATER}`,
      );
    }
    if (NEIGHBOUR_FUNCTIONS.test(name.toUpperCase())) {
      throw refuseSql(
        `${name} is not allowed: it uses other rows of the answer, and each window is a separate answer; ${COMPUTE_LATER}`,
      );
    }
    if (MULTIPLYING_FUNCTIONS.test(name.toUpperCase())) {
      throw refuseSql(
        `${name} is not allowed: it makes several rows from one, which have the same id or are counted twice; export the array, or use an array function such as arraySum`,
      );
    }
  }
}

/**
 * Refuses groups, aggregates and sorting: single trades are queried in windows, which may be cut between any two rows.
 */
export function assertSingleRows(query: QueryNode, table: string): void {
  for (const clause of ['GROUP BY', 'HAVING', 'ORDER BY']) {
    if (childrenUnder(query, clause).length === 0) continue;
    throw refuseSql(
      `has ${clause}: SQL without \`grain\` is queried in windows that may end between any two rows, so it must be a plain SELECT ... FROM ${table} WHERE {window} ...; ${
        clause === 'ORDER BY' ? 'order the drop with `drop.sort`' : 'for groups give a `grain`'
      }`,
    );
  }
  for (const node of walkQuery(query, 'expressions')) {
    const name = functionOf(node);
    if (name === undefined || !AGGREGATES.test(name.toUpperCase())) continue;
    throw refuseSql(
      `${name} makes one value of many rows, but windows may end between any two rows; for groups give a \`grain\` and a GROUP BY`,
    );
  }
}
