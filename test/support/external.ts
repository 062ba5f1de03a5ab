/**
 * What tests need beside Node: servers, and programs of other people. Only files named `*.external.test.ts`,
 * `*.slow.test.ts` and `*.nightly.test.ts` have them: `npm test` runs none of these. A machine that cannot have one skips
 * its tests with the reason; in CI there is no way without.
 */
export type ServerStart<Server> =
  | { readonly server: Server; readonly reason: undefined }
  | { readonly server: undefined; readonly reason: string };

/** @throws when `CI` is set and the server cannot be had */
export async function startExternal<Server>(
  what: string,
  start: () => Promise<ServerStart<Server>>,
): Promise<ServerStart<Server>> {
  const started = await start();
  if (started.reason !== undefined) announceSkip(what, started.reason);
  return started;
}

/**
 * @param obstacle why the program cannot be had here; `undefined` when it can
 * @throws when `CI` is set and the program cannot be had
 */
export function isMissing(what: string, obstacle: string | undefined): boolean {
  if (obstacle !== undefined) announceSkip(what, obstacle);
  return obstacle !== undefined;
}

function announceSkip(what: string, reason: string): void {
  if (process.env['CI']) throw new Error(`CI needs ${what}: ${reason}`);
  console.warn(`\n*** TESTS WITH ${what.toUpperCase()} ARE SKIPPED: ${reason}\n`);
}
