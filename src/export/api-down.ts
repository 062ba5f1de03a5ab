/** Failures that say the API itself is down, not that a window or a date is at fault. */
export const API_DOWN_CODES: ReadonlySet<string> = new Set([
  'API_UNREACHABLE',
  'SERVER_ERROR',
  'INTERNAL_ERROR',
  'RATE_LIMITED',
]);
