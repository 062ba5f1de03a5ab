/**
 * docs/tutorial.md as a newcomer types it: its service in one process, all other commands in one shell, in their order,
 * each of which must end well. Only the port is another, because 8100 may be taken.
 */
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LOCAL_KEY } from '../../src/cli/commands.ts';
import { listFiles, MAIN, makeFolder, startService, type TestService } from '../support/flowdrop.ts';
import { listBlocks, listCommands } from '../support/pages.ts';

const blocks = listBlocks('docs/tutorial.md');
const typed = blocks.filter(({ info }) => info === 'sh tutorial run').map(({ text }) => text);
const [serve = ''] = blocks.filter(({ info }) => info === 'sh tutorial serve').map(({ text }) => text);

let cwd: string;
let remove: () => Promise<void>;
let service: TestService;
let said: string;

beforeAll(async () => {
  ({ path: cwd, remove } = await makeFolder());
  const [[command, ...args] = []] = listCommands(serve);
  expect(command).toBe('serve');
  service = await startService([...args, '--key', LOCAL_KEY]);
  expect(typed.join('')).toContain('http://127.0.0.1:8100');
  const script = ['set -e', `npx() { shift; "${process.execPath}" "${MAIN}" "$@"; }`, ...typed].join('\n');
  const run = spawnSync('bash', ['-c', script.replaceAll('http://127.0.0.1:8100', service.url)], {
    cwd,
    env: { PATH: process.env['PATH'], HOME: cwd },
    encoding: 'utf8',
  });
  expect(run.status, run.stderr + run.stdout).toBe(0);
  said = run.stdout;
}, 400_000);
afterAll(async () => {
  await service.stop();
  await remove();
});

describe('the tutorial', () => {
  it('ends with three sealed sessions and nothing wrong', () => {
    expect(said).toContain('available 3');
    expect(said).toContain('3 dates, 60,000 rows: nothing is wrong');
  });

  it('writes a report that opens in a browser', async () => {
    const mails = await listFiles(join(cwd, 'desk/out/mail'));
    expect(mails.map((name) => name.split('.').at(-1)).sort()).toEqual(['eml', 'html']);
    const html = await readFile(join(cwd, 'desk/out/mail', mails.find((name) => name.endsWith('html')) ?? ''), 'utf8');
    expect(html).toContain('GEX');
  });
});
