/**
 * The Helm chart as Helm renders it: the same objects as the Kustomize bases, valid by the same schemas, and refusals that
 * say what to set. `test/deploy/chart.test.ts` holds what needs no Helm.
 */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it, type TestContext } from 'vitest';
import { parse } from 'yaml';
import { checkTypes, findModel, type KubernetesObject, parseObjects, readBase } from '../deploy/kubernetes.ts';
import { makeFolder, REPO } from '../support/flowdrop.ts';
import { BUILD_MS, type FoundHelm, findHelm } from '../support/helm.ts';

const run = promisify(execFile);
const CHART = join(REPO, 'deploy', 'helm', 'flowdrop');
/** Helm without a cluster takes the version that it was linked for, which `go install` does not say. */
const CLUSTER = ['--kube-version', '1.31.0'];
/** Labels that Helm's users expect, and bases do without. */
const HELM_LABELS = [
  'app.kubernetes.io/instance',
  'app.kubernetes.io/managed-by',
  'app.kubernetes.io/version',
  'helm.sh/chart',
];

const nightly = configOf('flowdrop-jobs');
const settings = configOf('flowdrop-settings');
const cronJobs = { 'nightly-trades': { schedule: '31 16 * * 1-5', timeZone: 'America/New_York' } };
const worker = { jobs: nightly, settings };
const monitored = { serviceMonitor: { enabled: true } };
const ruled = { prometheusRule: { enabled: true } };

let found: FoundHelm;
let folder: Awaited<ReturnType<typeof makeFolder>>;

beforeAll(async () => {
  found = await findHelm();
  folder = await makeFolder();
}, BUILD_MS);
afterAll(async () => await folder.remove());

it.for([
  ['daemon', { ...worker, ...monitored, ...ruled }],
  ['cronjob', { ...worker, daemon: { enabled: false }, cronJobs }],
  ['service', { ...worker, daemon: { enabled: false }, service: { enabled: true }, ...monitored }],
] as const)('the chart renders the objects of the base %s', async ([base, values], context) => {
  const rendered = await render(context, 'flowdrop', values);
  const monitors = 'serviceMonitor' in values ? readBase('monitoring') : [];
  // The component is of all that there may be, and a chart of what there is; a service alone has no use for jobs.
  const expected = [
    ...readBase(base),
    ...monitors.filter(({ metadata }) => metadata.name === `flowdrop-${base}`),
    ...('prometheusRule' in values ? readBase('alert-rules') : []),
  ].filter(({ kind }) => base !== 'service' || kind !== 'ConfigMap');
  expect(expected.length).toBeGreaterThan(5);
  expect(sortObjects(rendered.map(stripHelm))).toEqual(sortObjects(expected));
});

it('a chart with every value set is valid by the schemas, and its selectors are its own', async (context) => {
  const every = {
    ...{
      ...worker,
      ...monitored,
      ...ruled,
      service: { enabled: true, replicas: 2, settings: { LANG: 'C' }, existingSecret: 'keys' },
    },
    image: { repository: 'registry.example/flowdrop', digest: `sha256:${'a'.repeat(64)}`, pullPolicy: 'Always' },
    serviceAccount: { name: 'exporter', annotations: { 'eks.amazonaws.com/role-arn': 'arn:aws:iam::1:role/x' } },
    daemon: { persistence: { storageClass: 'fast', size: '50Gi' } },
    networkPolicy: { workerEgress: [{ ports: [{ port: 9000 }] }], serviceEgress: [{ ports: [{ port: 8443 }] }] },
    ...{
      nodeSelector: { disk: 'ssd' },
      tolerations: [{ key: 'batch', operator: 'Exists' }],
      podAnnotations: { team: 'quant' },
    },
  };
  const objects = await render(context, 'desk', every);
  for (const object of objects) {
    const Model = await findModel(object);
    expect(() => new Model(object).validate(), object.kind).not.toThrow();
  }
  expect(await checkTypes(objects)).toBe('');
  const text = JSON.stringify(objects);
  expect(text).toContain(`"image":"registry.example/flowdrop@sha256:${'a'.repeat(64)}"`);
  expect(text).not.toContain('"name":"flowdrop-');
  const selectors = [...text.matchAll(/"(?:matchLabels|selector)":\{"app\.kubernetes\.io\/name":[^}]*\}/g)];
  expect(selectors.length).toBeGreaterThan(8);
  for (const [selector] of selectors) expect(selector).toContain('"app.kubernetes.io/instance":"desk"');
  const daemon = JSON.stringify(objects.find(({ metadata }) => metadata.name === 'desk-flowdrop-daemon'));
  const changed = { ...every, settings: { ...settings, FLOWDROP_MAX_RUNS: '1' } };
  const restarted = (await render(context, 'desk', changed)).find(
    ({ metadata: { name } }) => name === 'desk-flowdrop-daemon',
  );
  expect(JSON.stringify(restarted)).not.toBe(daemon);
}, 120_000);

it.for([
  ['settings.FLOWDROP_API_URL', { jobs: nightly }],
  ['jobs: there is nothing to run', { settings }],
  ['choose one', { ...worker, cronJobs }],
  ...[
    'API_KEY',
    'REDIS_URL',
    'ALERT_WEBHOOK_URL',
    'EVENTS_URL',
    'CLICKHOUSE_URL',
    'CATALOG_CREDENTIAL',
    'KEY_DESK',
  ].map(
    (name) =>
      [`set FLOWDROP_${name}_FILE`, { ...worker, settings: { ...settings, [`FLOWDROP_${name}`]: 'x' } }] as const,
  ),
  ['FLOWDROP_API_URK: flowdrop has no such setting', { ...worker, settings: { ...settings, FLOWDROP_API_URK: 'x' } }],
  ['set AWS_SHARED_CREDENTIALS_FILE', { ...worker, settings: { ...settings, AWS_SECRET_ACCESS_KEY: 'x' } }],
  [
    'service.settings.FLOWDROP_CLICKHOUSE_URL:',
    { ...worker, service: { enabled: true, settings: { FLOWDROP_CLICKHOUSE_URL: 'x' } } },
  ],
  ['when there is no daemon', { ...worker, daemon: { enabled: false }, cronJobs, ...ruled }],
  ["additional properties 'setings' not allowed", { ...worker, setings: {} }],
  [
    'longer than the 52 characters',
    { ...worker, daemon: { enabled: false }, cronJobs: { ['x'.repeat(50)]: cronJobs['nightly-trades'] } },
  ],
] as const)('is refused: %s', async ([why, values], context) => {
  await expect(render(context, 'flowdrop', values)).rejects.toThrow(why);
});

it('the values of deploy/README.md give what its text says', async (context) => {
  const page = readFileSync(join(REPO, 'deploy', 'README.md'), 'utf8');
  const given = parse(/```yaml values\n([\s\S]*?)```/.exec(page)?.[1] ?? '') as object;
  const names = (await render(context, 'flowdrop', { jobs: nightly, ...given })).map(
    ({ kind, metadata }) => `${kind}/${metadata.name}`,
  );
  expect(names).toEqual(
    expect.arrayContaining(['Deployment/flowdrop-daemon', 'ServiceMonitor/flowdrop-daemon', 'PrometheusRule/flowdrop']),
  );
});

it('Helm finds nothing to complain about, and packs what it installs', async (context) => {
  const helm = need(context);
  const values = await writeValues(worker);
  const lint = await run(helm, ['lint', CHART, '--strict', '--values', values, ...CLUSTER]);
  expect(lint.stdout).toContain('0 chart(s) failed');
  await run(helm, ['package', CHART, '--destination', folder.path]);
  const { version } = JSON.parse(readFileSync(join(REPO, 'package.json'), 'utf8')) as { readonly version: string };
  const packed = join(folder.path, `flowdrop-${version}.tgz`);
  const { stdout } = await run(helm, ['template', 'flowdrop', packed, '--values', values, ...CLUSTER]);
  expect(parseObjects(stdout)).toEqual(await render(context, 'flowdrop', worker));
  await rm(packed);
});

function need(context: TestContext): string {
  return found.helm ?? context.skip(found.reason);
}

async function render(context: TestContext, release: string, values: object): Promise<readonly KubernetesObject[]> {
  const words = ['template', release, CHART, '--values', await writeValues(values), ...CLUSTER];
  return parseObjects((await run(need(context), words)).stdout);
}

async function writeValues(values: object): Promise<string> {
  const file = join(folder.path, 'values.json');
  await writeFile(file, JSON.stringify(values));
  return file;
}

function configOf(name: string): Readonly<Record<string, string>> {
  return readBase('common').find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === name)?.data ?? {};
}

/** An object without what Helm adds to it. */
function stripHelm(object: KubernetesObject): KubernetesObject {
  const isHelms = (key: string) => HELM_LABELS.includes(key) || key === 'checksum/settings';
  const text = JSON.stringify(object, (_, value: unknown) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
    const left = Object.entries(value).filter(([key, one]) => !isHelms(key) && !isEmptyAfter(key, one, isHelms));
    return Object.fromEntries(left);
  });
  return JSON.parse(text) as KubernetesObject;
}

function isEmptyAfter(key: string, value: unknown, isGone: (key: string) => boolean): boolean {
  return key === 'annotations' && typeof value === 'object' && value !== null && Object.keys(value).every(isGone);
}

function sortObjects(objects: readonly KubernetesObject[]): readonly KubernetesObject[] {
  const name = ({ kind, metadata }: KubernetesObject) => `${kind}/${metadata.name}`;
  return [...objects].sort((a, b) => name(a).localeCompare(name(b)));
}
