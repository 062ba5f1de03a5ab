/** The Python snippets of the pages, run over the drops of a real run with the readers of `test/contract/requirements.txt`. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { flowdrop, makeFolder, REPO, startService, type TestService } from '../support/flowdrop.ts';
import { listBlocks, PAGES } from '../support/pages.ts';
import { findPython } from '../support/python.ts';
import { findSparkJars } from '../support/spark.ts';

/** Skipped where Python or its packages cannot be had, which `support/python.ts` says aloud; CI never skips it. */
const python = findPython();
const spark = findSparkJars();
const snippets = PAGES.flatMap(listBlocks).filter(({ info }) => info === 'python run');

describe.skipIf(python.isMissing)('a snippet that reads drops', () => {
  let cwd: string;
  let remove: () => Promise<void>;
  let service: TestService;
  beforeAll(async () => {
    ({ path: cwd, remove } = await makeFolder());
    service = await startService(['--generate', '2', '--generate-rows', '500']);
    const run = await flowdrop(['--jobs', join(REPO, 'jobs'), 'run', 'nightly-trades', '--no-report'], {
      cwd,
      env: service.env,
    });
    expect(run.code, run.stderr).toBe(0);
  }, 240_000);
  afterAll(async () => {
    await service.stop();
    await remove();
  });

  it.for(snippets.map(({ page, line, text }) => [`${page}:${line}`, text] as const))(
    'of %s runs in Python',
    { timeout: 400_000 },
    ([, text], { skip }) => {
      skip(spark.isMissing && text.includes('pyspark'), 'Spark is missing');
      const env = { ...process.env, PYSPARK_SUBMIT_ARGS: spark.submitArgs };
      const run = spawnSync(python.path, ['-'], { cwd, input: text, encoding: 'utf8', env });
      expect(run.status, run.stderr).toBe(0);
      // It says something: an empty answer would be a snippet that reads nothing.
      expect(run.stdout.trim().length).toBeGreaterThan(20);
      expect(run.stdout).not.toMatch(/Empty|Series\(\[\]/);
    },
  );
});
