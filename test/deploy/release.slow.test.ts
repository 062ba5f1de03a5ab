/**
 * `npm run release`, from outside, in a throw-away repository with this one's files: what it refuses, and what a dry run
 * says. Whole releases are in `npm run nightly -- release`.
 */
import { execFile } from 'node:child_process';
import { readFileSync, symlinkSync } from 'node:fs';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeFolder, REPO } from '../support/flowdrop.ts';
import { serveHttp } from '../support/http-server.ts';
import { IS_NIGHTLY } from '../support/nightly.ts';
import { npmEnv } from '../support/npm.ts';
import { makeContext } from './replay.ts';

const run = promisify(execFile);
const { version } = JSON.parse(readFileSync(join(REPO, 'package.json'), 'utf8')) as { readonly version: string };
const [major = 0, minor = 0] = version.split('.').map(Number);
const next = `${major}.${minor + 1}.0`;
/** The build, the package and the bill of materials, on a busy machine. */
const RELEASE_MS = 240_000;

let clone: string;
let remove: () => Promise<void>;
const who = {
  GIT_AUTHOR_NAME: 'A',
  GIT_AUTHOR_EMAIL: 'a@example.com',
  GIT_COMMITTER_NAME: 'A',
  GIT_COMMITTER_EMAIL: 'a@example.com',
};
const env: { npm_config_registry?: string | undefined } & NodeJS.ProcessEnv = { ...npmEnv(), ...who };

beforeAll(async () => {
  ({ path: clone, remove } = await makeFolder());
  makeContext(REPO, clone, () => true);
  symlinkSync(join(REPO, 'node_modules'), join(clone, 'node_modules'));
  await git('init', '--quiet', '--initial-branch', 'main');
  const changelog = await readFile(join(clone, 'CHANGELOG.md'), 'utf8');
  await writeFile(join(clone, 'CHANGELOG.md'), changelog.replace('## Unreleased\n', '## Unreleased\n\n- News.\n'));
  await commit('All');
});
afterAll(async () => await remove());

it(
  'a release is refused with the reason, and a dry run changes nothing',
  async () => {
    expect(await release()).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('usage: npm run release -- VERSION'),
    });
    expect(await release('0.0.1')).toMatchObject({ code: 2, stderr: expect.stringContaining(`not above ${version}`) });
    expect(await release('v9')).toMatchObject({ code: 2, stderr: expect.stringContaining('"v9" is not a version') });
    await git('switch', '--quiet', '--create', 'side');
    expect(await release(next)).toMatchObject({ code: 2, stderr: expect.stringContaining('on branch side') });
    await git('switch', '--quiet', 'main');
    await writeFile(join(clone, 'note.txt'), 'x');
    expect(await release(next)).toMatchObject({ code: 2, stderr: expect.stringContaining('?? note.txt') });
    await rm(join(clone, 'note.txt'));
    const before = await git('rev-parse', 'HEAD');
    const dry = await release(next, '--dry-run');
    expect(dry).toMatchObject({ code: 0, stdout: expect.stringContaining(`ARG VERSION=${next}`) });
    expect(dry.stdout).toContain(`## ${next} - ${new Date().getUTCFullYear()}-`);
    await expectUnchanged(before);
  },
  RELEASE_MS,
);

// Each builds the package: nightly parts.
it.runIf(IS_NIGHTLY)(
  'a dry run names what npm audit knows, or that it has no answer',
  async () => {
    const advisory = { id: 1, url: 'https://example.com/1', title: 'x', severity: 'high', vulnerable_versions: '*' };
    let advisories: object | undefined = { chdb: [advisory] };
    const server = await serveHttp((request, response) => {
      const isAudit = request.url === '/-/npm/v1/security/advisories/bulk' && advisories !== undefined;
      response.writeHead(isAudit ? 200 : 404, { 'content-type': 'application/json' });
      response.end(JSON.stringify(isAudit ? advisories : {}));
    });
    const dry = async () => (await release(next, '--dry-run')).stderr;
    const before = env.npm_config_registry;
    env.npm_config_registry = `${server.url}/`;
    try {
      expect(await dry()).toContain('chdb has an advisory (high)');
      advisories = {};
      expect(await dry()).not.toMatch(/advisor/);
      advisories = undefined;
      expect(await dry()).toContain('did not answer npm audit');
    } finally {
      env.npm_config_registry = before;
      await server.close();
    }
  },
  RELEASE_MS,
);

it.runIf(IS_NIGHTLY)(
  'a build that fails leaves the clone as it was',
  async () => {
    await writeFile(join(clone, 'src', 'broken.ts'), 'export const one: number = "1";\n');
    const before = await commit('Break the build');
    expect(await release(next)).toMatchObject({ code: 1, stderr: expect.stringContaining('npm pack') });
    await expectUnchanged(before);
    await git('revert', '--no-edit', 'HEAD');
  },
  RELEASE_MS,
);

it.runIf(IS_NIGHTLY)(
  'a release is one commit with a tag, a package, a bill of materials and checksums',
  async () => {
    const before = await git('rev-parse', 'HEAD');
    const made = await release(next);
    expect(made).toMatchObject({ code: 0, stdout: expect.stringContaining(`git push origin main v${next}`) });
    // Said as long as nobody has filled in the digest.
    const isPinned = /^ARG BASE=\S+@sha256:/m.test(readFileSync(join(clone, 'Dockerfile'), 'utf8'));
    expect(made.stderr.includes('not pinned')).toBe(!isPinned);
    expect(await git('rev-parse', 'HEAD^')).toBe(before);
    expect(await git('rev-parse', `v${next}^{commit}`)).toBe(await git('rev-parse', 'HEAD'));
    expect(await git('status', '--porcelain')).toBe('');
    // Whatever names the version of the package must have the next one.
    const named = [`flowdrop:${version}`, `"version": "${version}"`, `ersion: ${version}$`, `VERSION=${version}$`];
    const old = named.flatMap((text) => ['-e', text]);
    const places = ['package.json', 'Dockerfile', 'deploy', '.github'];
    await expect(git('grep', '--line-number', ...old, '--', ...places)).rejects.toMatchObject({ code: 1 });
    const changelog = await readFile(join(clone, 'CHANGELOG.md'), 'utf8');
    expect(changelog).toMatch(new RegExp(`^## Unreleased\n\n## ${next} - \\d{4}-\\d\\d-\\d\\d\n\n- News\\.$`, 'm'));

    const out = join(clone, 'out', 'release');
    const [bill, packed] = [`flowdrop-${next}.cdx.json`, `flowdrop-${next}.tgz`];
    expect((await readdir(out)).sort()).toEqual(['SHA256SUMS', bill, packed]);
    const { stdout } = await run('sha256sum', ['--check', 'SHA256SUMS'], { cwd: out });
    expect(stdout).toBe(`${bill}: OK\n${packed}: OK\n`);
    const manifest = await run('tar', ['-xzOf', packed, 'package/package.json'], { cwd: out });
    expect(JSON.parse(manifest.stdout)).toMatchObject({ name: 'flowdrop', version: next });
    const listed = JSON.parse(await readFile(join(out, bill), 'utf8')) as Bill;
    expect(listed.metadata.component).toMatchObject({ name: 'flowdrop', version: next, type: 'application' });
    const names = listed.components.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['chdb', '@chdb/lib-linux-x64-gnu', '@chdb/lib-linux-arm64-gnu']));
    expect(names).not.toContain('vitest');
    const lock = JSON.parse(await readFile(join(clone, 'npm-shrinkwrap.json'), 'utf8')) as Lock;
    expect([lock.version, lock.packages[''].version]).toEqual([next, next]);

    expect(await release(`${major}.${minor + 2}.0`)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('nothing under'),
    });
  },
  RELEASE_MS,
);

interface Bill {
  readonly metadata: { readonly component: object };
  readonly components: readonly { readonly name: string }[];
}
interface Lock {
  readonly version: string;
  readonly packages: { readonly '': { readonly version: string } };
}

async function release(...words: readonly string[]) {
  const command = ['run', '--silent', 'release', '--', ...words];
  return await run('npm', command, { cwd: clone, env }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({ code, stdout, stderr }),
  );
}

async function expectUnchanged(head: string): Promise<void> {
  expect(await git('rev-parse', 'HEAD')).toBe(head);
  expect(await git('status', '--porcelain')).toBe('');
  expect(await git('tag', '--list')).toBe('');
}

async function commit(message: string): Promise<string> {
  await git('add', '--all');
  await git('commit', '--quiet', '--message', message);
  return await git('rev-parse', 'HEAD');
}

async function git(...words: readonly string[]): Promise<string> {
  return (await run('git', words, { cwd: clone, env })).stdout.trim();
}
