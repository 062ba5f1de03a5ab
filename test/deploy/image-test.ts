/**
 * `npm run image-test`: builds the image by its Dockerfile, without a container engine, and runs it as deployed: a read-only
 * root file system, one volume, no capability, no root. By hand, for it makes a Debian (once) and installs all packages.
 * It needs root on a Debian with debootstrap. `IMAGE_TEST_FOLDER` names where the base is kept.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { REPO } from '../support/flowdrop.ts';
import { findFreePort } from '../support/server-process.ts';
import { createIgnore } from './dockerfile.ts';
import {
  buildImage,
  type ContainerOptions,
  type Image,
  makeContext,
  runContainer,
  signalContainer,
  startContainer,
} from './replay.ts';

/** What a container may take to answer before the test gives up. */
const PATIENCE_MS = 60_000;
/** What an engine waits after SIGTERM before it kills. */
const STOP_SECONDS = 10;

const bases = process.env['IMAGE_TEST_FOLDER'] ?? join(tmpdir(), 'flowdrop-image-base');
const folder = mkdtempSync(join(tmpdir(), 'flowdrop-image-'));
const startedMs = performance.now();
try {
  await main();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function main(): Promise<void> {
  const context = join(folder, 'context');
  const files = makeContext(REPO, context, createIgnore(readFileSync(join(REPO, '.dockerignore'), 'utf8')));
  say(`context: ${files} files`);
  const image = buildImage(join(REPO, 'Dockerfile'), context, folder, bases);
  say('built; the largest folders of /app, in MB:');
  execFileSync('sh', ['-c', 'du -xm --max-depth=3 app | sort -rn | head -12'], { cwd: image.root, stdio: 'inherit' });
  await tryCommands(image);
  await tryService(image);
  await tryDaemon(image);
  say('all well');
}

async function tryCommands(image: Image): Promise<void> {
  const volume = makeVolume('commands');
  for (const tmp of [true, false]) {
    const options = { volume, tmp };
    const where = tmp ? 'with a tmpfs at /tmp' : 'nothing writable but the volume';
    await expectDone(image, { ...options, args: ['--version'] }, where);
    await expectDone(image, { ...options, args: ['--help'] }, where);
    await expectDone(image, { ...options, args: ['check'] }, where);
  }
  await expectDone(image, { volume, tmp: true, args: ['demo'] }, 'exports, seals, draws and mails');
  await expectDone(image, { volume, tmp: true, args: ['verify', 'nightly-trades'] }, 'reads it back');
  const sql = 'SELECT count() AS rows FROM RawOptionTrades';
  await expectDone(image, { volume, tmp: true, args: ['query', '--job', 'nightly-trades', sql] }, 'the archive');
  const write = await runContainer(image, { volume, tmp: true, entrypoint: ['touch'], args: ['/app/x'] });
  assert.notEqual(write.code, 0, 'the root file system can be written to');
  const id = await runContainer(image, { volume, tmp: true, entrypoint: ['id'], args: ['-u'] });
  assert.equal(id.out.trim(), '1000');
  say('user 1000; /app cannot be written to');
}

/** The service from the same image, and a run against it without /tmp. */
async function tryService(image: Image): Promise<void> {
  const child = startContainer(image, {
    volume: makeVolume('service'),
    tmp: true,
    args: 'serve --port 0 --portal-port 0 --generate 2 --generate-rows 2000 --requests-per-second 100'.split(' '),
  });
  child.stderr?.resume();
  assert(child.stdout);
  const [line] = await once(createInterface({ input: child.stdout }), 'line', {
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const { url } = JSON.parse(String(line)) as { url: string };
  const volume = makeVolume('run');
  const env = { FLOWDROP_API_URL: url, FLOWDROP_API_KEY: 'cus_local', FLOWDROP_REQUESTS_PER_SECOND: '50' };
  await expectDone(
    image,
    { volume, tmp: false, env, args: ['run', 'nightly-trades'] },
    'nothing writable but the volume',
  );
  const doctor = { volume, args: ['doctor', 'nightly-trades'] };
  await expectDone(image, { ...doctor, tmp: true, env }, 'with a tmpfs at /tmp');
  // What needs a temporary folder takes the one of TMPDIR, where no tmpfs is to be had.
  await expectDone(image, { ...doctor, tmp: false, env: { ...env, TMPDIR: '/data' } }, 'TMPDIR=/data, no /tmp');
  const none = await runContainer(image, { ...doctor, tmp: false, env });
  assert.equal(none.code, 1, 'doctor needs no temporary folder any more: say so in the Dockerfile');
  const [node = '', script = ''] = image.healthcheck;
  const check = { volume, tmp: false, entrypoint: [node], args: [script, `${url}/healthz`] };
  await expectDone(image, check, 'health check of the service');
  const seconds = await stop(child);
  say(`the service stopped ${seconds.toFixed(1)} s after SIGTERM to PID 1`);
  const dead = await runContainer(image, check);
  assert.equal(dead.code, 1, `the health check of a service that is gone: ${dead.out}`);
  say(`health check of a service that is gone: exit code 1, ${dead.out.trim()}`);
}

async function tryDaemon(image: Image): Promise<void> {
  const volume = makeVolume('daemon');
  const env = { FLOWDROP_STATUS_ADDRESS: `127.0.0.1:${await findFreePort()}`, FLOWDROP_API_URL: 'http://127.0.0.1:9' };
  const child = startContainer(image, { volume, tmp: true, env });
  child.stdout?.resume();
  assert(child.stderr);
  await once(createInterface({ input: child.stderr }), 'line', { signal: AbortSignal.timeout(PATIENCE_MS) });
  const deadlineMs = performance.now() + PATIENCE_MS / 3;
  let health = { code: null as number | null, out: '' };
  // Each try is a process of its own, so the loop waits on them.
  while (health.code !== 0 && performance.now() < deadlineMs) {
    health = await runContainer(image, { volume, tmp: false, env, entrypoint: image.healthcheck, args: [] });
  }
  const seconds = await stop(child);
  say(`the daemon stopped ${seconds.toFixed(1)} s after SIGTERM to PID 1`);
  assert.equal(health.code, 0, `HEALTHCHECK of the daemon: ${health.out}`);
  say(`HEALTHCHECK of the daemon: ${health.out.trim()}`);
}

/** @returns seconds that it took */
async function stop(child: ReturnType<typeof startContainer>): Promise<number> {
  const sentMs = performance.now();
  const ended = once(child, 'exit');
  signalContainer(child, 'SIGTERM');
  await ended;
  const seconds = (performance.now() - sentMs) / 1000;
  assert(seconds < STOP_SECONDS, `it took ${seconds} s to stop`);
  return seconds;
}

async function expectDone(image: Image, options: ContainerOptions, what: string): Promise<void> {
  const { code, out, seconds } = await runContainer(image, options);
  const command = [...(options.entrypoint ?? ['flowdrop']), ...(options.args ?? [])].join(' ').slice(0, 60);
  if (code !== 0) console.log(out);
  assert.equal(code, 0, `${command} (${what}) ended with ${code}`);
  console.log(`  ${seconds.toFixed(1).padStart(6)} s  ${command} (${what})`);
}

/** A volume as an engine makes it: owned by the image's user; with the shipped jobs, as a deployment mounts its own. */
function makeVolume(name: string): string {
  const volume = join(folder, `volume-${name}`);
  mkdirSync(join(volume, 'jobs'), { recursive: true });
  cpSync(join(REPO, 'jobs', 'nightly-trades.yaml'), join(volume, 'jobs', 'nightly-trades.yaml'));
  chownSync(volume, 1000, 1000);
  return volume;
}

function say(text: string): void {
  console.log(`[${((performance.now() - startedMs) / 1000).toFixed(0).padStart(4)} s] ${text}`);
}
