/** SQL over wall-clock text, `YYYY-MM-DD HH:MM[:SS]`, for sources and stages alike. Pure. */

/** The second of the day of a text expression; a text without seconds counts as its minute. */
export function secondOfDaySql(text: string): string {
  const part = (start: number, convert: string) => `${convert}(substring(${text}, ${start}, 2))`;
  return `${part(12, 'toInt32')} * 3600 + ${part(15, 'toInt32')} * 60 + ${part(18, 'toInt32OrZero')}`;
}
