/**
 * The Dockerfile, as far as it can be held without building it: what it copies and starts is there, and what it leaves out
 * is not needed. `npm run image-test` builds it and runs it.
 */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, linkSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { listFiles, makeFolder, REPO, startService } from '../support/flowdrop.ts';
import { serveHttp } from '../support/http-server.ts';
import { createIgnore, parseDockerfile } from './dockerfile.ts';

const stages = parseDockerfile(readFileSync(join(REPO, 'Dockerfile'), 'utf8'));
const keeps = createIgnore(readFileSync(join(REPO, '.dockerignore'), 'utf8'));
const manifest = JSON.parse(readFileSync(join(REPO, 'package.json'), 'utf8')) as {
  readonly version: string;
  readonly license: string;
  readonly engines: { readonly node: string };
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
};
const lock = JSON.parse(readFileSync(join(REPO, 'npm-shrinkwrap.json'), 'utf8')) as {
  readonly packages: Readonly<
    Record<string, { dev?: boolean; devOptional?: boolean; peer?: boolean; hasInstallScript?: boolean }>
  >;
};
const all = stages.flatMap(({ instructions }) => instructions);
const last = stages.at(-1)?.instructions ?? [];

/** Ends of names of files that the build deletes from packages. */
const deleted = all.flatMap((step) =>
  step.kind === 'run' && step.command.includes('find node_modules')
    ? [...step.command.matchAll(/-name '\*([^']+)'/g)].map(([, end = '']) => end)
    : [],
);

describe('the Dockerfile', () => {
  it('copies what git knows and the ignore file lets through', () => {
    const known = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
      cwd: REPO,
      encoding: 'utf8',
    }).split('\n');
    const sources = all.flatMap((step) => (step.kind === 'copy' && step.from === undefined ? step.sources : []));
    expect(sources.length).toBeGreaterThan(5);
    const lacking = sources.filter(
      (source) => !known.some((path) => (path === source || path.startsWith(`${source}/`)) && keeps(path)),
    );
    expect(lacking).toEqual([]);
    expect(known.filter((path) => keeps(path) && !sources.some((source) => path.startsWith(source)))).toEqual([]);
  });

  it('lets no secret, state or history into the context', () => {
    expect(
      ['.env', '.git/config', '.flowdrop/run.json', 'node_modules/x', 'deploy/secrets/api-key'].filter(keeps),
    ).toEqual([]);
  });

  it('copies from a stage only what was made there', () => {
    const made = new Set(['/app/node_modules', '/app/dist']);
    for (const step of stages[0]?.instructions ?? []) {
      if (step.kind !== 'copy') continue;
      for (const source of step.sources) made.add(`/app/${source.split('/').at(-1)}`);
    }
    const taken = last.flatMap((step) => (step.kind === 'copy' ? step.sources : []));
    expect(taken.filter((source) => !made.has(source))).toEqual([]);
    expect(last.every((step) => step.kind !== 'copy' || step.from === stages[0]?.name)).toBe(true);
  });

  it('runs commands of the base image and scripts that exist', () => {
    const commands = all
      .flatMap((step) => (step.kind === 'run' ? step.command.split('&&') : []))
      .map((text) => text.trim());
    const binaries = new Set(commands.map((command) => command.split(' ')[0]));
    expect([...binaries].sort()).toEqual(['chmod', 'chown', 'find', 'ln', 'npm', 'rm']);
    for (const command of commands) {
      const script = /^npm run (\S+)/.exec(command)?.[1];
      if (script !== undefined) expect(manifest.scripts[script], script).toBeTruthy();
    }
  });

  it('is of one Node that the package allows', () => {
    expect(new Set(stages.map(({ image }) => image)).size).toBe(1);
    const major = Number(/^node:(\d+)-[a-z]+-slim(@sha256:[0-9a-f]{64})?$/.exec(stages[0]?.image ?? '')?.[1]);
    const lowest = Number(/^>=(\d+)/.exec(manifest.engines.node)?.[1]);
    expect(major).toBeGreaterThanOrEqual(lowest);
    expect(major % 2).toBe(0);
  });

  it('says what is in it: version and licence of the package, and by default that the commit is not known', () => {
    const labels = last.flatMap((step) => (step.kind === 'label' ? [step.values] : []));
    expect(labels).toEqual([
      {
        'org.opencontainers.image.title': 'flowdrop',
        'org.opencontainers.image.description': expect.stringContaining('option trades'),
        'org.opencontainers.image.licenses': manifest.license,
        'org.opencontainers.image.version': manifest.version,
        'org.opencontainers.image.revision': 'unknown',
        'org.opencontainers.image.source': 'unknown',
      },
    ]);
    // A layer below it would be made again by every commit.
    expect(last.findIndex(({ kind }) => kind === 'arg')).toBeGreaterThan(
      last.findLastIndex(({ kind }) => kind === 'copy'),
    );
  });

  it('runs as a user by number that is not root, and starts the program without a shell between', () => {
    expect(last.filter(({ kind }) => kind === 'user')).toEqual([{ kind: 'user', value: '1000:1000' }]);
    expect(last.filter(({ kind }) => kind === 'entrypoint' || kind === 'cmd')).toEqual([
      { kind: 'entrypoint', args: ['flowdrop'] },
      { kind: 'cmd', args: ['start'] },
    ]);
    expect(last.filter(({ kind }) => kind === 'volume')).toEqual([{ kind: 'volume', value: '/data' }]);
  });

  it('needs no install script but that of the engine, which has its binary in a package', () => {
    const scripts = Object.entries(lock.packages).filter(([, entry]) => entry.hasInstallScript && !entry.dev);
    expect(scripts.map(([path]) => path)).toEqual(['node_modules/chdb']);
  });

  it('can be built for amd64 and arm64 by the lockfile', () => {
    for (const arch of ['x64', 'arm64']) {
      expect(lock.packages).toHaveProperty(`node_modules/@chdb/lib-linux-${arch}-gnu`);
      expect(lock.packages).toHaveProperty(`node_modules/@resvg/resvg-js-linux-${arch}-gnu`);
    }
  });

  it('is refused where the reader of this test does not know a line', () => {
    expect(() => parseDockerfile('FROM x\nADD a b')).toThrow('ADD a b');
    expect(() => parseDockerfile('FROM x\nCOPY --link a b')).toThrow();
    expect(() => parseDockerfile('FROM x\nCMD flowdrop start')).toThrow();
    expect(() => parseDockerfile('ARG X\nFROM x')).toThrow('without a default');
    expect(() => parseDockerfile(`FROM $\{X}`)).toThrow('no ARG before');
    expect(() => createIgnore('**/x')).toThrow('**/x');
  });
});

describe('what the image leaves out', () => {
  it('is imported by nothing in dist', () => {
    const builtins = new Set(builtinModules);
    const wrong: string[] = [];
    let seen = 0;
    for (const file of readdirSync(join(REPO, 'dist'), { recursive: true, encoding: 'utf8' })) {
      if (!file.endsWith('.js')) continue;
      for (const name of listPackages(readFileSync(join(REPO, 'dist', file), 'utf8'))) {
        seen += 1;
        if (!(name in manifest.dependencies) && !builtins.has(name)) wrong.push(`${file}: ${name}`);
      }
    }
    expect(seen).toBeGreaterThan(50);
    expect(wrong).toEqual([]);
  });

  it('is missed by no command: a production install starts, checks jobs, exports, draws and mails', async () => {
    const service = await startService(['--generate', '1', '--generate-rows', '300']);
    const { path, remove } = await makeFolder();
    try {
      layProduction(path);
      expect(existsSync(join(path, 'node_modules', 'vitest'))).toBe(false);
      expect(existsSync(join(path, 'node_modules', 'typescript'))).toBe(false);
      expect(deleted).toContain('.ts');
      expect(existsSync(join(path, 'node_modules', 'zod', 'index.d.ts'))).toBe(false);
      const start = async (...args: readonly string[]) => {
        const env = { PATH: process.env['PATH'] ?? '', HOME: path, ...service.env };
        return (
          await promisify(execFile)(process.execPath, [join(path, 'dist', 'main.js'), ...args], { cwd: path, env })
        ).stdout;
      };
      expect(await start('--help')).toContain('Usage: flowdrop');
      expect(await start('check')).toContain('nightly-trades');
      await start('run', 'nightly-trades');
      expect(await listFiles(join(path, 'out'))).toEqual(
        expect.arrayContaining([expect.stringMatching(/trades\.parquet$/), expect.stringMatching(/\.eml$/)]),
      );
    } finally {
      await service.stop();
      await remove();
    }
  }, 120_000);
});

describe('the health check', () => {
  it.each([
    ['/healthz/live', 200, 0],
    ['/healthz/live', 503, 1],
  ])('of a daemon that answers %s with %i ends with %i', async (path, status, code) => {
    const asked: string[] = [];
    const server = await serveHttp(({ url = '' }, response) => {
      asked.push(url);
      response.writeHead(status).end('{"ok":true}');
    });
    const { port } = new URL(server.url);
    try {
      const { ended, said } = await checkHealth([], { FLOWDROP_STATUS_ADDRESS: `0.0.0.0:${port}` });
      expect(ended).toBe(code);
      expect(said).toContain(`http://127.0.0.1:${port}${path}: ${status}`);
      expect(asked).toEqual([path]);
      expect((await checkHealth([`http://127.0.0.1:${port}/healthz`], {})).ended).toBe(code);
    } finally {
      await server.close();
    }
  });

  it('of a daemon that is not there fails, and one without a status page has nothing to ask', async () => {
    expect(await checkHealth([], { FLOWDROP_STATUS_ADDRESS: '127.0.0.1:9' })).toMatchObject({ ended: 1 });
    expect(await checkHealth([], { FLOWDROP_STATUS_ADDRESS: 'off' })).toMatchObject({ ended: 0 });
  });
});

async function checkHealth(args: readonly string[], env: Readonly<Record<string, string>>) {
  const child = spawn(process.execPath, [join(REPO, 'deploy', 'healthcheck.js'), ...args], { env, cwd: dirname(REPO) });
  let said = '';
  child.stdout.on('data', (chunk) => {
    said += chunk;
  });
  const [ended] = await once(child, 'close');
  return { ended: ended as number | null, said }; // 'close' gives an exit code first.
}

/** What the image has in /app: the packages that the lockfile does not mark for development or as peers. */
function layProduction(folder: string): void {
  for (const name of ['dist', 'templates', 'sql', 'jobs', 'package.json']) {
    cpSync(join(REPO, name), join(folder, name), { recursive: true });
  }
  for (const [path, entry] of Object.entries(lock.packages)) {
    if (path === '' || entry.dev || entry.devOptional || entry.peer || !existsSync(join(REPO, path))) continue;
    linkPackage(join(REPO, path), join(folder, path));
  }
}

/** Links, where the file system can, instead of copying: the engine alone has half a gigabyte. */
function linkPackage(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from)) {
    if (name === 'node_modules') continue; // Packages in it have entries of their own.
    if (deleted.some((end) => name.endsWith(end))) continue;
    const [source, target] = [join(from, name), join(to, name)];
    if (statSync(source).isDirectory()) linkPackage(source, target);
    else {
      try {
        linkSync(source, target);
      } catch {
        cpSync(source, target);
      }
    }
  }
}

/** Names of packages that a compiled file imports, requires or resolves. */
function listPackages(text: string): readonly string[] {
  const found = [
    ...text.matchAll(/^(?:import|export)\s[^'";]*?from\s+'([^']+)'/gm),
    ...text.matchAll(/^import '([^']+)'/gm),
    ...text.matchAll(/\b(?:import|require|resolve)\('([^'./][^']*)'\)/g),
  ].map(([, specifier = '']) => specifier);
  return found
    .filter((specifier) => !specifier.startsWith('.') && !specifier.startsWith('node:'))
    .map((specifier) =>
      specifier
        .split('/')
        .slice(0, specifier.startsWith('@') ? 2 : 1)
        .join('/'),
    );
}
