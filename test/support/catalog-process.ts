/** `flowdrop serve --catalog` as a user starts it, on a free port. */
import { spawnService } from './flowdrop.ts';
import { endProcess } from './server-process.ts';

export interface CatalogProcess {
  readonly url: string;
  /** Its first line on stdout. */
  readonly ready: Readonly<Record<string, unknown>>;
  /** Its log so far, as text. */
  readonly log: readonly string[];
  stop(): Promise<void>;
}

export async function startCatalogProcess(
  store: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<CatalogProcess> {
  const { child, ready, log } = await spawnService(['--catalog', store, ...args], env, () => {});
  return { url: String(ready['url']), ready, log, stop: async () => void (await endProcess(child, 'SIGTERM')) };
}
