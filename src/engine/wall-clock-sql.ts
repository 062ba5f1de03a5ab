/** SQL for wall-clock text, `YYYY-MM-DD HH:MM[:SS]`, for sources and stages. Pure. */

const SECONDS_PER_DAY = 86_400;

/**
 * The second in which a row of a date counts: the second of its time, or the start of its minute; the first second if the
 * time is of an earlier date, the last if it is of a later one. A time with a `T` sorts after the times of the date, and so
 * does the condition of a window, which compares text.
 * @param text expression of the time @param day of the row's date, `YYYY-MM-DD` @param grain seconds of a cell
 */
export function secondOfDateSql(text: string, day: string, grain = 1): string {
  const own = `substring(${text}, 1, 11)`;
  const start = `concat(${day}, ' ')`;
  const last = SECONDS_PER_DAY - grain;
  const part = (from: number, factor: string) => `toInt32OrZero(substring(${text}, ${from}, 2))${factor}`;
  const second = `${part(12, ' * 3600')} + ${part(15, ' * 60')} + ${part(18, '')}`;
  return `multiIf(${own} < ${start}, 0, ${own} > ${start}, ${last}, ${second})`;
}
