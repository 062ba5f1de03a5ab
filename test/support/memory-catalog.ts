/**
 * An Iceberg REST catalog in this process, for CI: what `drop.catalog` asks of one, by apache/iceberg's
 * `open-api/rest-catalog-open-api.yaml`. It keeps metadata in memory, and reads a registered table from its file. The catalog
 * with which Iceberg tests itself takes its place in `npm run nightly -- catalog`.
 */
import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { serveHttp } from './http-server.ts';
import type { RestCatalogServer } from './rest-catalog.ts';

interface Numbered {
  readonly [member: string]: unknown;
}

/** Metadata of a table, as far as a commit changes it. */
interface TableDocument {
  'table-uuid': string;
  'current-snapshot-id': number | null;
  'current-schema-id': number;
  schemas: Numbered[];
  snapshots: Numbered[];
  properties: Record<string, string>;
}

type Update = Numbered & { readonly action: string };
type Answer = readonly [status: number, body?: object];

const NOT_FOUND: Answer = [404, { error: { message: 'not found', code: 404 } }];
const CONFLICT: Answer = [409, { error: { message: 'conflict', code: 409 } }];

export async function startMemoryCatalog(): Promise<RestCatalogServer> {
  const namespaces = new Map<string, Map<string, TableDocument>>();
  const { url, close } = await serveHttp(async (request, response) => {
    const [status, body] = await answer(namespaces, request);
    response.writeHead(status, { 'content-type': 'application/json' }).end(body && JSON.stringify(body));
  });
  return { url, stop: close };
}

async function answer(namespaces: Map<string, Map<string, TableDocument>>, request: IncomingMessage): Promise<Answer> {
  const body = request.method === 'POST' ? ((await json(request)) as Numbered) : {};
  const path = new URL(request.url ?? '/', 'http://catalog').pathname.split('/').slice(1).map(decodeURIComponent);
  const [version, kind, namespace = '', place, table = ''] = path;
  if (version !== 'v1') return NOT_FOUND;
  if (kind === 'config') return [200, { defaults: {}, overrides: {} }];
  if (kind !== 'namespaces') return NOT_FOUND;
  if (namespace === '' && request.method === 'POST') {
    const name = (body['namespace'] as readonly string[]).join('\u001f');
    if (namespaces.has(name)) return CONFLICT;
    namespaces.set(name, new Map());
    return [200, body];
  }
  const tables = namespaces.get(namespace);
  if (tables === undefined) return NOT_FOUND;
  if (place === 'register') {
    if (tables.has(String(body['name']))) return CONFLICT;
    const text = await readFile(String(body['metadata-location']).replace(/^file:/, ''), 'utf8');
    // Another caller may have registered it meanwhile.
    if (tables.has(String(body['name']))) return CONFLICT;
    const metadata = JSON.parse(text) as TableDocument;
    tables.set(String(body['name']), metadata);
    return [200, { metadata }];
  }
  const metadata = tables.get(table);
  if (place !== 'tables' || metadata === undefined) return NOT_FOUND;
  if (request.method === 'DELETE') {
    tables.delete(table);
    return [204];
  }
  if (request.method === 'POST') {
    if (!(body['requirements'] as readonly Numbered[]).every((one) => isMet(one, metadata))) return CONFLICT;
    for (const update of body['updates'] as readonly Update[]) apply(update, metadata);
  }
  return [200, { metadata }];
}

function isMet(requirement: Numbered, metadata: TableDocument): boolean {
  if (requirement['type'] === 'assert-table-uuid') return requirement['uuid'] === metadata['table-uuid'];
  if (requirement['type'] === 'assert-ref-snapshot-id')
    return requirement['snapshot-id'] === metadata['current-snapshot-id'];
  throw new RangeError(`unknown requirement ${requirement['type']}`);
}

function apply(update: Update, metadata: TableDocument): void {
  switch (update.action) {
    case 'add-schema':
      metadata.schemas.push(numberNext(update['schema'], 'schema-id', metadata.schemas));
      break;
    case 'set-current-schema':
      metadata['current-schema-id'] = chooseNumber(update, 'schema-id', metadata.schemas);
      break;
    case 'set-properties':
      Object.assign(metadata.properties, update['updates']);
      break;
    case 'add-snapshot':
      metadata.snapshots.push(update['snapshot'] as Numbered);
      break;
    case 'set-snapshot-ref':
      metadata['current-snapshot-id'] = Number(update['snapshot-id']);
      break;
    default:
      throw new RangeError(`unknown update ${update.action}`);
  }
}

/** A catalog gives numbers of its own. */
function numberNext(added: unknown, id: string, known: readonly Numbered[]): Numbered {
  return { ...(added as Numbered), [id]: Math.max(...known.map((one) => Number(one[id]))) + 1 };
}

/** -1 is the one that was added last. */
function chooseNumber(update: Numbered, id: string, known: readonly Numbered[]): number {
  return Number(update[id] === -1 ? known.at(-1)?.[id] : update[id]);
}
