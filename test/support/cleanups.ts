/** What a test file made and gives back: folders, services, whatever has an end. */
import { afterAll, type afterEach } from 'vitest';
import { makeFolder } from './flowdrop.ts';

export interface Cleanups {
  /** Run after the tests, the newest first. */
  readonly cleanups: (() => Promise<void>)[];
  /** Makes a temporary folder that is removed with the rest. */
  folder(): Promise<string>;
  /** Ends with the rest what was started: a service, a proxy, a server. */
  keep<Started extends Ending>(starting: Started | Promise<Started>): Promise<Started>;
}

type Ending = { readonly close: () => Promise<unknown> } | { readonly stop: () => Promise<unknown> };

/** To be called outside of any test. @param when after all tests of the file, or after each */
export function useCleanups(when: typeof afterAll | typeof afterEach = afterAll): Cleanups {
  const cleanups: Cleanups['cleanups'] = [];
  when(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });
  return {
    cleanups,
    async folder() {
      const { path, remove } = await makeFolder();
      cleanups.push(remove);
      return path;
    },
    async keep(starting) {
      const started = await starting;
      cleanups.push(async () => void (await ('stop' in started ? started.stop() : started.close())));
      return started;
    },
  };
}
