/** S3 services that lack something, as a run meets them. What each request of a store does is tested in `test/store`. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { type PlainS3Options, startPlainS3 } from '../support/plain-s3.ts';

const { folder, keep } = useCleanups(afterAll);
const IDENTITY = 'PUT bucket/drops/_flowdrop/store.json';

let service: TestService;
beforeAll(async () => {
  service = await keep(startService(['--generate', '1', '--generate-rows', '300', '--as-of', '2026-11-20T23:00:00Z']));
});

async function openStore(options: PlainS3Options = {}) {
  const s3 = await keep(startPlainS3(options));
  const cwd = await folder();
  const job = await writeJob(cwd, { to: 's3://bucket/drops', reports: 'reports: []' });
  const start = (command: string) => flowdrop([command, job], { cwd, env: { ...service.env, ...s3.env } });
  return { start, asked: s3.asked, listSealed: () => [...s3.keys.keys()].filter((key) => /manifest\.json$/.test(key)) };
}

it('a store that overwrites what it should keep is refused by a run in the words of doctor, and nothing is sealed', async () => {
  const { start, listSealed } = await openStore({ ignoresConditions: true });
  const words = [/a write-once object was overwritten/, /This store ignores If-None-Match: two workers could seal one/];
  // Twice: the second finds an identity there.
  for (const command of ['run', 'run', 'doctor']) {
    const { code, stdout, stderr } = await start(command);
    expect([command, code]).toEqual([command, 1]);
    for (const word of words) expect((stdout + stderr).replace(/\s+/g, ' ')).toMatch(word);
  }
  expect(listSealed()).toEqual([]);
});

it('a store is asked once whether it keeps what it has, and later runs remember it', async () => {
  const { start, asked, listSealed } = await openStore();
  for (const tries of [2, 2]) {
    const { code, stderr } = await start('run');
    expect(code, stderr).toBe(0);
    expect(asked.filter((request) => request === IDENTITY)).toHaveLength(tries);
  }
  expect(listSealed()).toHaveLength(1);
});

it('a store that refuses checksums of uploads gets a day, and one that refuses those of answers is told as such', async () => {
  const uploads = await openStore({ refusedHeader: /^x-amz-(?:checksum-(?!mode)|sdk-checksum|trailer)/ });
  const sealed = await uploads.start('run');
  expect(sealed.code, sealed.stderr).toBe(0);
  expect(uploads.listSealed()).toHaveLength(1);
  const answers = await openStore({ refusedHeader: /^x-amz-checksum-mode/ });
  const refused = await answers.start('run');
  expect(refused.code).toBe(1);
  expect(refused.stderr.replace(/\s+/g, ' ')).toContain('AWS_RESPONSE_CHECKSUM_VALIDATION=WHEN_REQUIRED');
});

it('a store that refuses files without a signature of their bytes is found by doctor, as by a run', async () => {
  const { start } = await openStore({ refusesUnsigned: true });
  for (const command of ['doctor', 'run']) {
    const { code, stdout, stderr } = await start(command);
    expect([command, code]).toEqual([command, 1]);
    expect(stdout + stderr).toContain('NotImplemented');
  }
});

it('a drop that is larger than an object may be is told with the way out, and nothing is sealed', async () => {
  const { start, listSealed } = await openStore({ maxBytes: 5_000 });
  const { code, stdout, stderr } = await start('run');
  expect(code, stderr).toBe(1);
  expect((stdout + stderr).replace(/\s+/g, ' ')).toContain('5 GiB: split the job by symbols');
  expect(listSealed()).toEqual([]);
});
