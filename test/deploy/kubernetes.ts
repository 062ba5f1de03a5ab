/** Kubernetes objects of `deploy/`, and the schemas that they are held against: Kubernetes' own and the Prometheus operator's. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { makeFolder, REPO } from '../support/flowdrop.ts';

export const KUBERNETES = join(REPO, 'deploy', 'kubernetes');

export interface Container {
  readonly args: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  readonly resources: { readonly requests: object; readonly limits: { readonly memory: string } };
}

export interface PodSpec {
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly containers: readonly Container[];
  readonly volumes: readonly { readonly name: string }[];
}

export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: {
    readonly schedule?: string;
    readonly timeZone?: string;
    readonly template?: { readonly spec: PodSpec };
    readonly jobTemplate?: { readonly spec: { readonly template: { readonly spec: PodSpec } } };
  };
}

interface Kustomization {
  readonly resources: readonly string[];
  readonly configMapGenerator?: readonly {
    readonly name: string;
    readonly options: { readonly labels: Readonly<Record<string, string>> };
    readonly literals: readonly string[];
  }[];
}

type ModelClass = new (object: object) => { validate(): void };

export function parseObjects(text: string): readonly KubernetesObject[] {
  return parseAllDocuments(text).flatMap((document) => {
    expect(document.errors).toEqual([]);
    const object = document.toJS() as KubernetesObject | null;
    return object === null ? [] : [object];
  });
}

/** The objects of a Kustomize base or component, and of those that it names; made ones without the hash in their name. */
export function readBase(name: string): readonly KubernetesObject[] {
  const folder = join(KUBERNETES, name);
  const { resources, configMapGenerator = [] } = parse(
    readFileSync(join(folder, 'kustomization.yaml'), 'utf8'),
  ) as Kustomization;
  return [
    ...resources.flatMap((path) =>
      path.endsWith('.yaml') ? parseObjects(readFileSync(join(folder, path), 'utf8')) : readBase(join(name, path)),
    ),
    ...configMapGenerator.map(({ name: made, options, literals }) => ({
      ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: made, labels: options.labels } },
      data: Object.fromEntries(literals.map((line) => line.split(/=(.*)/, 2))),
    })),
  ];
}

export function podOf({ spec }: KubernetesObject): PodSpec | undefined {
  return spec?.template?.spec ?? spec?.jobTemplate?.spec.template.spec;
}

/** Requests and limits of the containers of a base. */
export function listResources(base: string): readonly Container['resources'][] {
  return readBase(base).flatMap((object) => (podOf(object)?.containers ?? []).map(({ resources }) => resources));
}

interface Validator {
  (value: unknown): boolean;
  readonly errors: unknown;
}

/** A JSON Schema as a function. @param ajv of the schema's draft */
export function compileSchema(schema: object, ajv: 'ajv' | 'ajv/dist/2019' = 'ajv', options: object = {}): Validator {
  const { default: Ajv } = createRequire(import.meta.url)(ajv) as {
    readonly default: new (options: object) => { compile(schema: object): Validator };
  };
  return new Ajv(options).compile(schema);
}

/** Whether a package with schemas is there. */
export function isInstalled(name: string): boolean {
  const is = existsSync(join(REPO, 'node_modules', name));
  if (!is) console.warn(`SKIPPED: ${name} is not installed, so deploy/ is not held against its schema`);
  return is;
}

/** The class whose `validate` holds an object against its schema. */
export async function findModel({ apiVersion, kind }: KubernetesObject): Promise<ModelClass> {
  // The module is named by the object: there is no type that says what it has.
  const models = (await import(/* @vite-ignore */ moduleOf(apiVersion))) as Record<string, ModelClass>;
  const Model = models[kind];
  if (Model === undefined) throw new Error(`no schema of ${apiVersion} ${kind}`);
  return Model;
}

/** What the compiler says of the objects as literals of the types that were made from the schemas; nothing if well. */
export async function checkTypes(values: readonly KubernetesObject[]): Promise<string> {
  const { path, remove } = await makeFolder();
  try {
    const lines = values.flatMap((value, index) => [
      `import type { I${value.kind} as T${index} } from '${moduleOf(value.apiVersion)}';`,
      `export const o${index}: T${index} = ${JSON.stringify(value)};`,
    ]);
    symlinkSync(join(REPO, 'node_modules'), join(path, 'node_modules'));
    writeFileSync(join(path, 'package.json'), '{"type":"module"}');
    writeFileSync(join(path, 'manifests.ts'), lines.join('\n'));
    const flags = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--types', ''];
    const tsc = join(REPO, 'node_modules', '.bin', 'tsc');
    return await promisify(execFile)(tsc, [...flags, 'manifests.ts'], { cwd: path }).then(
      () => '',
      ({ stdout }: { readonly stdout: string }) => stdout,
    );
  } finally {
    await remove();
  }
}

function moduleOf(apiVersion: string): string {
  const isOperator = apiVersion.startsWith('monitoring.coreos.com/');
  return `${isOperator ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models'}/${apiVersion}`;
}
