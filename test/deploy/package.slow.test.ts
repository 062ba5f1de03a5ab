/** The package that `npm pack` makes: installed on its own, away from the clone, it has all that it needs to run. */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeFolder, REPO } from '../support/flowdrop.ts';
import { npmEnv } from '../support/npm.ts';

const run = promisify(execFile);
/** For hundreds of packages on a busy machine. */
const INSTALL_MS = 400_000;

let folder: string;
let remove: () => Promise<void>;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  ({ path: folder, remove } = await makeFolder());
  env = { ...npmEnv(), PATH: `${join(folder, 'bin')}:${process.env['PATH']}` };
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], { cwd: REPO, env });
  const [packed = ''] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'));
  const install = ['install', '--global', '--prefix', folder, '--ignore-scripts', '--prefer-offline', '--no-audit'];
  await run('npm', [...install, join(folder, packed)], { cwd: folder, env });
}, INSTALL_MS);
afterAll(async () => await remove());

it('brings the commands, and neither tests nor sources', async () => {
  const { stdout } = await run('flowdrop', ['--version'], { cwd: folder, env });
  expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  const files = await readdir(join(folder, 'lib', 'node_modules', 'flowdrop'));
  expect(files.filter((name) => name !== 'node_modules').sort()).toEqual(
    ['CHANGELOG.md', 'LICENSE', 'NOTICE', 'README.md', 'dist', 'jobs', 'package.json', 'sql', 'templates'].sort(),
  );
});

it('is where the systemd units start it, with the prefix that their first lines name', async () => {
  for (const unit of ['flowdrop.service', 'flowdrop-run@.service']) {
    const text = await readFile(join(REPO, 'deploy', 'systemd', unit), 'utf8');
    const program = /^ExecStart=\S+ \/opt\/flowdrop\/(\S+)/m.exec(text)?.[1] ?? '';
    expect((await run(process.execPath, [join(folder, program), '--version'], { env })).stdout).toMatch(
      /^\d+\.\d+\.\d+\n$/,
    );
  }
});

it('runs the demo, in any folder', async () => {
  const { stdout } = await run('flowdrop', ['demo', '--rows', '300', '--sessions', '1'], { cwd: folder, env });
  expect(stdout).toMatch(/sealed/);
  expect(await readdir(join(folder, 'out', 'drops', 'trades'))).toHaveLength(1);
  expect(stdout).toContain('flowdrop init desk');
});
