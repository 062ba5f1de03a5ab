/** The package that `npm pack` makes: installed on its own, away from the clone, it has all that it needs to run. */
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeFolder, REPO } from '../support/flowdrop.ts';
import { npmEnv } from '../support/npm.ts';

const run = promisify(execFile);
/** For hundreds of packages on a busy machine. */
const INSTALL_MS = 400_000;

let folder: string;
let place: string;
let remove: () => Promise<void>;
const env = npmEnv();
const flowdrop = (...args: readonly string[]) =>
  run(process.execPath, [join(place, 'dist', 'main.js'), ...args], { cwd: folder, env });

beforeAll(async () => {
  ({ path: folder, remove } = await makeFolder());
  place = join(folder, 'flowdrop');
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], { cwd: REPO, env });
  const [packed = ''] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'));
  // As deploy/README.md has it.
  await mkdir(place);
  await run('tar', ['-xzf', join(folder, packed), '--strip-components=1', '-C', place]);
  const options = ['--omit=dev', '--ignore-scripts', '--prefer-offline', '--no-audit'];
  await run('npm', ['ci', '--prefix', place, ...options], { cwd: folder, env });
}, INSTALL_MS);
afterAll(async () => await remove());

it('brings the commands, and neither tests nor sources', async () => {
  expect((await flowdrop('--version')).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  const brought = ['CHANGELOG.md', 'LICENSE', 'NOTICE', 'README.md', 'dist', 'docs', 'jobs'];
  const files = (await readdir(place)).filter((name) => name !== 'node_modules');
  expect(files.sort()).toEqual([...brought, 'npm-shrinkwrap.json', 'package.json', 'sql', 'templates'].sort());
  expect(await readdir(join(place, 'docs'))).toEqual(['data.md', 'formulas.md']);
});

it('installs the versions that were tested, for this Node', async () => {
  const { stdout } = await run('npm', ['ls', '--all', '--json', '--omit=dev'], { cwd: place, env });
  const listed: unknown = JSON.parse(stdout);
  expect(listed).not.toHaveProperty('problems');
  const { packages } = JSON.parse(await readFile(join(REPO, 'npm-shrinkwrap.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly version: string }>>;
  };
  // Without the lockfile these two are newer, and want a newer Node.
  for (const path of ['node_modules/nopt', 'node_modules/cookie']) {
    const installed: unknown = JSON.parse(await readFile(join(place, path, 'package.json'), 'utf8'));
    expect(installed).toMatchObject({ version: packages[path]?.version });
  }
});

it('is where the systemd units start it, with the folder that their README names', async () => {
  expect(await readFile(join(REPO, 'deploy', 'README.md'), 'utf8')).toContain('-C /opt/flowdrop\n');
  for (const unit of ['flowdrop.service', 'flowdrop-run@.service']) {
    const text = await readFile(join(REPO, 'deploy', 'systemd', unit), 'utf8');
    const program = /^ExecStart=\/usr\/bin\/env node \/opt\/flowdrop\/(\S+)/m.exec(text)?.[1];
    expect(program, unit).toBe('dist/main.js');
  }
});

it('runs the demo, in any folder', async () => {
  const { stdout } = await flowdrop('demo', '--rows', '300', '--sessions', '1');
  expect(stdout).toMatch(/sealed/);
  expect(await readdir(join(folder, 'out', 'drops', 'trades'))).toHaveLength(1);
  expect(stdout).toContain('flowdrop init desk');
});
