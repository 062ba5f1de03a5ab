/** The Helm chart, as far as it can be held without Helm. `npm run nightly -- helm` renders it and compares it with the bases. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { isMap, parse, parseDocument, type YAMLMap } from 'yaml';
import { REPO } from '../support/flowdrop.ts';
import { listItems, readPage } from '../support/pages.ts';
import { compileSchema, listResources, readBase } from './kubernetes.ts';

const CHART = join(REPO, 'deploy', 'helm', 'flowdrop');
const read = (name: string) => readFileSync(join(CHART, name), 'utf8');
const values = parse(read('values.yaml')) as {
  readonly settings: object;
  readonly daemon: Sized;
  readonly cronJob: Sized;
  readonly service: { readonly resources: object };
};

interface Sized {
  readonly resources: object;
  readonly persistence: { readonly size: string };
}

it('chart and images have the version of the package', () => {
  const { version } = JSON.parse(readFileSync(join(REPO, 'package.json'), 'utf8')) as { readonly version: string };
  expect(parse(read('Chart.yaml'))).toMatchObject({ version, appVersion: version });
  const compose = readFileSync(join(REPO, 'deploy', 'compose.yaml'), 'utf8');
  const bases = ['daemon', 'cronjob', 'service'].map((base) => JSON.stringify(readBase(base)));
  const images = [compose, ...bases].map((text) => /image"?: ?"?(flowdrop:[^"\s]+)/.exec(text)?.[1]);
  expect(images).toEqual(images.map(() => `flowdrop:${version}`));
});

it('the chart knows the settings of docs/settings.md, and which are secret', () => {
  const items = listItems(readPage('docs/settings.md')).filter(([name]) => name.startsWith('FLOWDROP_'));
  const listed = (name: string) =>
    (new RegExp(`define "${name}" -}}\n([A-Z0-9_\\s]+)`).exec(read('templates/_parts.tpl'))?.[1] ?? '')
      .trim()
      .split(/\s+/);
  const list = (isSecret: boolean) =>
    items.filter(([, text]) => text.startsWith(' (secret)') === isSecret).map(([name]) => name);
  expect(listed('flowdrop.plain-settings').sort()).toEqual(list(false).sort());
  expect([...listed('flowdrop.secret-settings'), 'FLOWDROP_KEY_NAME'].sort()).toEqual(list(true).sort());
});

it('the alert rules of Kubernetes are those of Prometheus', () => {
  const { groups } = parse(readFileSync(join(REPO, 'deploy', 'prometheus', 'flowdrop.rules.yml'), 'utf8')) as {
    readonly groups: unknown;
  };
  expect(readBase('alert-rules').map(({ spec }) => spec)).toEqual([{ groups }]);
  expect(parse(read('files/flowdrop.rules.yml'))).toEqual({ groups });
});

it('each value of the chart has a comment, or its group has', () => {
  const bare = (map: YAMLMap, path: string): readonly string[] =>
    map.items.flatMap(({ key, value }, index) => {
      const node = key as { readonly value: string; readonly commentBefore?: string | null };
      const name = `${path}${node.value}`;
      // The comment of a map's first key is kept with the map.
      const comment = node.commentBefore ?? (index === 0 ? map.commentBefore : undefined);
      if (comment) return [];
      return isMap(value) && !value.flow ? bare(value, `${name}.`) : [name];
    });
  const { contents } = parseDocument(read('values.yaml'));
  if (!isMap(contents)) throw new Error('values.yaml is no map');
  expect(bare(contents, '')).toEqual([]);
});

it('the chart asks for the memory, cores and disk of the bases', () => {
  const sizes = (base: string) => {
    const claim = readBase(base).find(({ kind }) => kind === 'PersistentVolumeClaim');
    const { spec } = (claim ?? {}) as { readonly spec?: Claim };
    return { resources: listResources(base), size: spec?.resources.requests.storage };
  };
  const { daemon, cronJob, service } = values;
  expect(sizes('daemon')).toEqual({ resources: [daemon.resources], size: daemon.persistence.size });
  expect(sizes('cronjob')).toEqual({ resources: [cronJob.resources], size: cronJob.persistence.size });
  expect(listResources('service')).toEqual([service.resources]);
});

it('the table of deploy/README.md has the requests and limits of the bases', () => {
  const page = readFileSync(join(REPO, 'deploy', 'README.md'), 'utf8');
  const rows = [...page.matchAll(/^\| (daemon|CronJob|service) +\| (\d+m), (\d+) Gi +\| (\d+) Gi /gm)];
  const table = rows.map(([, pod = '', cpu, memory, limit]) => [
    pod.toLowerCase(),
    [{ requests: { cpu, memory: `${memory}Gi` }, limits: { memory: `${limit}Gi` } }],
  ]);
  expect(table).toEqual(['daemon', 'cronjob', 'service'].map((base) => [base, listResources(base)]));
});

it("the chart's values are valid by its schema, and a misspelt or mistyped one is not", () => {
  const validate = compileSchema(JSON.parse(read('values.schema.json')));
  expect([validate(values), validate.errors]).toEqual([true, null]);
  for (const wrong of [
    { setings: {} },
    { settings: { FLOWDROP_MAX_RUNS: 2 } },
    { jobs: { nightly: 'name: nightly' } },
    { cronJobs: { nightly: { schedule: '31 16 * * 1-5' } } },
    { daemon: { ...values.daemon, replicas: 2 } },
    { image: { repository: 'flowdrop', digest: 'latest' } },
  ]) {
    expect(validate({ ...values, ...wrong }), JSON.stringify(wrong)).toBe(false);
  }
});

interface Claim {
  readonly resources: { readonly requests: { readonly storage: string } };
}
