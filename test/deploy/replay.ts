/**
 * Follows a Dockerfile without a container engine: its stages as folders, its commands by chroot in namespaces of their
 * own. What stands in for the base image is a Debian made by debootstrap, with Node and npm laid into it. It needs root.
 * Not followed: layers, and limits of memory and processes, which are the engine's.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type ImageStage, parseDockerfile } from './dockerfile.ts';

export interface Image {
  readonly root: string;
  readonly env: Readonly<Record<string, string>>;
  readonly user: string;
  readonly workdir: string;
  readonly volumes: readonly string[];
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  readonly healthcheck: readonly string[];
}

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';

/** A Debian with Node as in `node:<major>-<suite>-slim`, once; the next replay finds it. */
export function makeBase(image: string, folder: string): string {
  const [, major = '', suite = ''] = /^node:(\d+)-([a-z]+)-slim(?:@sha256:[0-9a-f]{64})?$/.exec(image) ?? [];
  if (major === '') throw new Error(`not known how to make ${image}`);
  const root = join(folder, `${suite}-node${major}`);
  if (existsSync(join(root, '.made'))) return root;
  rmSync(root, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  run('debootstrap', ['--variant=minbase', suite, root]);
  const nodeFolder = join(folder, `node${major}`);
  mkdirSync(nodeFolder, { recursive: true });
  const nodePackage = `node-linux-${process.arch}`;
  run('npm', ['install', '--prefix', nodeFolder, '--ignore-scripts', '--no-save', `${nodePackage}@${major}`]);
  cpSync(join(nodeFolder, 'node_modules', nodePackage, 'bin', 'node'), join(root, 'usr/local/bin/node'));
  const modules = execFileSync('npm', ['root', '-g'], { encoding: 'utf8' }).trim();
  cpSync(join(modules, 'npm'), join(root, 'usr/local/lib/node_modules/npm'), { recursive: true });
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm'));
  run('chroot', [root, 'useradd', '--uid', '1000', '--create-home', '--user-group', '--shell', '/bin/bash', 'node']);
  writeFileSync(join(root, '.made'), '');
  return root;
}

/** Builds every stage. @param context folder of what the ignore file lets through */
export function buildImage(dockerfile: string, context: string, folder: string, bases: string): Image {
  const built = new Map<string, string>();
  let image: Image | undefined;
  for (const [index, stage] of parseDockerfile(readFileSync(dockerfile, 'utf8')).entries()) {
    const root = join(folder, stage.name ?? `stage-${index}`);
    run('cp', ['-a', makeBase(stage.image, bases), root]);
    image = buildStage(stage, root, context, built);
    built.set(stage.name ?? String(index), root);
  }
  if (!image) throw new Error(`${dockerfile} has no stage`);
  return image;
}

function buildStage(stage: ImageStage, root: string, context: string, built: ReadonlyMap<string, string>): Image {
  let image: Image = {
    root,
    ...{ env: { PATH }, user: '0:0', workdir: '/', volumes: [] },
    ...{ entrypoint: [], cmd: [], healthcheck: [] },
  };
  for (const step of stage.instructions) {
    const startedMs = performance.now();
    switch (step.kind) {
      case 'from':
      case 'arg':
      case 'label':
        break;
      case 'env':
        image = { ...image, env: { ...image.env, ...step.values } };
        break;
      case 'workdir':
        mkdirSync(join(root, step.value), { recursive: true });
        image = { ...image, workdir: step.value };
        break;
      case 'user':
        image = { ...image, user: step.value };
        break;
      case 'volume':
        image = { ...image, volumes: [...image.volumes, step.value] };
        break;
      case 'copy': {
        const from = step.from === undefined ? context : built.get(step.from);
        if (from === undefined) throw new Error(`COPY --from=${step.from}: there is no such stage`);
        const to = join(root, resolve(image.workdir, step.to));
        for (const source of step.sources)
          copyInto(join(from, source), to, step.to.endsWith('/') || step.sources.length > 1);
        break;
      }
      case 'run':
        runStep(image, step.command);
        break;
      case 'entrypoint':
        image = { ...image, entrypoint: step.args };
        break;
      case 'cmd':
        image = { ...image, cmd: step.args };
        break;
      case 'healthcheck':
        image = { ...image, healthcheck: step.args };
        break;
      default:
        throw new Error(`not followed: ${JSON.stringify(step satisfies never)}`);
    }
    const seconds = (performance.now() - startedMs) / 1000;
    if (step.kind === 'run' || step.kind === 'copy')
      console.log(`  ${seconds.toFixed(1).padStart(6)} s  ${describe(step)}`);
  }
  return image;
}

/** A folder's content, a file under its own name where the target is a folder; owned by root. */
function copyInto(source: string, to: string, intoFolder: boolean): void {
  if (statSync(source).isDirectory()) {
    mkdirSync(to, { recursive: true });
    run('cp', ['-a', '--no-preserve=ownership', `${source}/.`, to]);
  } else {
    mkdirSync(intoFolder ? to : dirname(to), { recursive: true });
    run('cp', ['-a', '--no-preserve=ownership', source, to]);
  }
}

/** A build step: as root, with a network. What the registry needs of this machine is mounted, never copied. */
function runStep(image: Image, command: string): void {
  const cache = execFileSync('npm', ['config', 'get', 'cache'], { encoding: 'utf8' }).trim();
  const shown = {
    '/etc/resolv.conf': '/etc/resolv.conf',
    '/mnt/certificates.crt': CERTIFICATES,
    '/mnt/npm-cache': cache,
  };
  const mounts = Object.entries(shown)
    .filter(([, from]) => existsSync(from))
    .map(([to, from]) => {
      const target = join(image.root, to);
      if (statSync(from).isDirectory()) mkdirSync(target, { recursive: true });
      else if (!existsSync(target)) writeFileSync(target, '');
      return `mount --bind ${quote(from)} ${quote(target)}`;
    });
  const env = {
    ...image.env,
    HOME: '/root',
    ...{
      npm_config_cache: '/mnt/npm-cache',
      npm_config_cafile: '/mnt/certificates.crt',
      npm_config_update_notifier: 'false',
    },
    NODE_EXTRA_CA_CERTS: '/mnt/certificates.crt',
  };
  const inside = ['/bin/sh', '-c', `cd ${quote(image.workdir)} && ${command}`];
  const script = [
    ...enterMounts(image.root),
    ...mounts,
    `exec chroot ${quote(image.root)} ${quoteAll(withEnv(env, inside))}`,
  ];
  execFileSync('unshare', ['--mount', '--pid', '--fork', '--kill-child', '/bin/sh', '-ec', script.join('\n')], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  rmSync(join(image.root, 'mnt'), { recursive: true, force: true });
  mkdirSync(join(image.root, 'mnt'));
}

export interface ContainerOptions {
  readonly args?: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Folder on this machine that is mounted at the image's volume. */
  readonly volume: string;
  /** A tmpfs at /tmp; without it nothing but the volume can be written to. */
  readonly tmp: boolean;
}

/** Starts a container: root file system read-only, the user of the image without any capability, PID 1 in its namespace. */
export function startContainer(image: Image, options: ContainerOptions): ChildProcess {
  const { root, workdir, user } = image;
  const [uid = '', gid = ''] = user.split(':');
  const command = [...(options.entrypoint ?? image.entrypoint), ...(options.args ?? image.cmd)];
  const drop = ['setpriv', '--reuid', uid, '--regid', gid, '--clear-groups', '--no-new-privs'];
  const inside = withEnv({ ...image.env, HOME: '/home/node', ...options.env }, [
    ...[...drop, '--inh-caps=-all', '--bounding-set=-all'],
    ...['/bin/sh', '-c', `cd ${quote(workdir)} && exec "$@"`, 'sh', ...command],
  ]);
  const volumes = image.volumes.map((at) => `mount --bind ${quote(options.volume)} ${quote(join(root, at))}`);
  const script = [
    `mount --bind ${quote(root)} ${quote(root)}`,
    ...enterMounts(root),
    ...volumes,
    ...(options.tmp ? [`mount -t tmpfs -o size=256m,mode=1777 tmpfs ${quote(join(root, 'tmp'))}`] : []),
    `mount -o remount,bind,ro ${quote(root)}`,
    `exec chroot ${quote(root)} ${quoteAll(inside)}`,
  ];
  return spawn('unshare', ['--mount', '--pid', '--fork', '--kill-child', '/bin/sh', '-ec', script.join('\n')], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly seconds: number;
}

/** Runs a container to its end. `out` is all that it said. */
export async function runContainer(image: Image, options: ContainerOptions): Promise<Ended> {
  const startedMs = performance.now();
  const child = startContainer(image, options);
  let out = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk) => {
      out += chunk;
    });
  }
  const code = await new Promise<number | null>((done, fail) => child.once('error', fail).once('close', done));
  return { code, out, seconds: (performance.now() - startedMs) / 1000 };
}

/** Signals PID 1 of a container, as an engine does. */
export function signalContainer(child: ChildProcess, signal: NodeJS.Signals): void {
  const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim();
  process.kill(Number(children.split(' ')[0]), signal);
}

/** Copies what git knows or would add, as far as the ignore file lets it: a clean clone with the working changes. */
export function makeContext(repo: string, folder: string, keeps: (path: string) => boolean): number {
  const listed = execFileSync('git', ['-C', repo, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    encoding: 'utf8',
  });
  const files = [...new Set(listed.split('\0'))].filter(
    (path) => path !== '' && keeps(path) && existsSync(join(repo, path)),
  );
  for (const path of files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(repo, path), join(folder, path));
  }
  return files.length;
}

/** Nothing that is mounted here is seen outside, or outlives the command. */
function enterMounts(root: string): readonly string[] {
  return [
    'mount --make-rprivate /',
    `mount -t proc proc ${quote(join(root, 'proc'))}`,
    `mount --rbind /dev ${quote(join(root, 'dev'))}`,
  ];
}

function withEnv(env: Readonly<Record<string, string>>, command: readonly string[]): readonly string[] {
  return ['/usr/bin/env', '-i', ...Object.entries(env).map(([name, value]) => `${name}=${value}`), ...command];
}

function describe(step: {
  readonly kind: string;
  readonly command?: string;
  readonly sources?: readonly string[];
}): string {
  return `${step.kind.toUpperCase()} ${step.command ?? step.sources?.join(' ')}`.slice(0, 110);
}

function run(command: string, args: readonly string[]): void {
  execFileSync(command, args, { stdio: ['ignore', 'ignore', 'inherit'] });
}

function quoteAll(words: readonly string[]): string {
  return words.map(quote).join(' ');
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
