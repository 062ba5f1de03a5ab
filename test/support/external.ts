/**
 * What tests need beside Node: servers, and programs of other people. `npm test` starts and installs none of them; `npm
 * run test:all` does, and a machine that cannot have one skips its tests with the reason. In CI there is no way without.
 */
export type ServerStart<Server> =
  | { readonly server: Server; readonly reason: undefined }
  | { readonly server: undefined; readonly reason: string };

/** Whether this run has servers and programs: see `vitest.config.ts`. */
export const HAS_EXTERNAL = process.env['FLOWDROP_TEST_EXTERNAL'] !== '0';

const LEFT_OUT = '`npm run test:all` runs it';

/** @throws when `CI` is set and the server cannot be had */
export async function startExternal<Server>(
  what: string,
  start: () => Promise<ServerStart<Server>>,
): Promise<ServerStart<Server>> {
  if (!HAS_EXTERNAL) return { server: undefined, reason: LEFT_OUT };
  const started = await start();
  if (started.reason !== undefined) announceSkip(what, started.reason);
  return started;
}

/**
 * @param obstacle why the program cannot be had here; `undefined` when it can
 * @throws when `CI` is set and the program cannot be had
 */
export function isMissing(what: string, obstacle: string | undefined): boolean {
  if (!HAS_EXTERNAL) return true;
  if (obstacle !== undefined) announceSkip(what, obstacle);
  return obstacle !== undefined;
}

function announceSkip(what: string, reason: string): void {
  if (process.env['CI']) throw new Error(`CI needs ${what}: ${reason}`);
  console.warn(`\n*** TESTS WITH ${what.toUpperCase()} ARE SKIPPED: ${reason}\n`);
}
