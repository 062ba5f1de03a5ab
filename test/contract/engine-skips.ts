/**
 * What Debian's ClickHouse server (18.16) cannot do, by the titles of the tests that are skipped on it, each with its
 * reason. A table of data; `engine.external.test.ts` fails when a title here is no test's.
 */
export const OLD_SERVER_SKIPS: Readonly<Record<string, string>> = {
  'bound values arrive as they are, whatever is in them': 'it has no query parameters',
  'a bound value that does not fit its type is refused': 'it has no query parameters',
  'the number of rows of a result is told': 'it sends no header X-ClickHouse-Summary',
  'an empty result has no rows and no bytes': 'it sends no header X-ClickHouse-Summary',
  'a result comes as typed columns': 'it has no output format ArrowStream',
  'rows are inserted from a JSON array': 'its JSONEachRow takes lines only',
  'CSV columns are taken by their names': 'it skips the header (no setting input_format_with_names_use_header)',
};
