/** SQL over wall-clock text, `YYYY-MM-DD HH:MM[:SS]`, for sources and stages alike. Pure. */

const SECONDS_PER_DAY = 86_400;

/** The second of the day of a text expression; a text without seconds counts as its minute. */
function secondOfDaySql(text: string): string {
  const part = (start: number, factor: string) => `toInt32OrZero(substring(${text}, ${start}, 2))${factor}`;
  return `${part(12, ' * 3600')} + ${part(15, ' * 60')} + ${part(18, '')}`;
}

/**
 * The second by which a row of a date is counted: that of its time; where its time is of an earlier date the first one,
 * of a later date the last. @param day expression of the row's date, `YYYY-MM-DD` @param grain seconds of a cell
 */
export function secondOfDateSql(text: string, day: string, grain = 1): string {
  return clampToDateSql(text, day, ['0', secondOfDaySql(text), String(SECONDS_PER_DAY - grain)]);
}

/**
 * One of three expressions: for a text that sorts before the times of the date, among them, after them. So a time with a
 * `T` lies after them, where the condition of a window, which compares text, finds it.
 */
export function clampToDateSql(
  text: string,
  day: string,
  [before, inside, after]: readonly [string, string, string],
): string {
  const own = `substring(${text}, 1, 11)`;
  const start = `concat(${day}, ' ')`;
  return `multiIf(${own} < ${start}, ${before}, ${own} > ${start}, ${after}, ${inside})`;
}
