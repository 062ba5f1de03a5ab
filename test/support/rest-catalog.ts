/**
 * A real Iceberg REST catalog for the tests: the one with which Iceberg tests itself, from Maven Central, before SQLite.
 * It asks for no token and cannot be taken away, so a gate stands before it: HTTP on loopback that can demand a token and
 * close its door.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { isMissing } from './external.ts';
import { runMaven } from './maven.ts';
import { findFreePort, killServer } from './server-process.ts';

const POM = new URL('rest-catalog/pom.xml', import.meta.url).pathname;
const MAIN_CLASS = 'org.apache.iceberg.rest.RESTCatalogServer';
const START_TIMEOUT_MS = 60_000;

export interface CatalogPrograms {
  /** Folder of the jars. */
  readonly path: string;
  readonly isMissing: boolean;
}

/** @throws when `CI` is set and they cannot be had */
export function findCatalogPrograms(): CatalogPrograms {
  const digest = createHash('sha256').update(readFileSync(POM)).digest('hex').slice(0, 12);
  const path = join(tmpdir(), `flowdrop-test-rest-catalog-${digest}`);
  return {
    path,
    isMissing: isMissing('a REST catalog', existsSync(path) ? undefined : fetchJars(path)),
  };
}

function fetchJars(path: string): string | undefined {
  const own = `${path}.${process.pid}`;
  try {
    const obstacle = runMaven(['-f', POM, 'dependency:copy-dependencies', `-DoutputDirectory=${own}`]);
    if (obstacle === undefined && !existsSync(path)) renameSync(own, path);
    return obstacle;
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}

export interface RestCatalogServer {
  /** Of the catalog itself. */
  readonly url: string;
  stop(): Promise<void>;
}

/** @param folder for its database @param settings as `CATALOG_*`: `S3_ENDPOINT` is the property `s3.endpoint` */
export async function startRestCatalog(
  { path }: CatalogPrograms,
  folder: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<RestCatalogServer> {
  const port = await findFreePort();
  const child = spawn('java', ['-Xmx256m', '-cp', `${path}/*`, MAIN_CLASS], {
    env: {
      ...process.env,
      CATALOG_REST_PORT: String(port),
      CATALOG_URI: `jdbc:sqlite:${folder}/catalog.db`,
      CATALOG_WAREHOUSE: join(folder, 'warehouse'),
      ...settings,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const said: string[] = [];
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`the catalog does not start: ${said.join('')}`)), START_TIMEOUT_MS);
    child.stderr.setEncoding('utf8').on('data', (part: string) => {
      said.push(part);
      if (!/Started Server@/.test(part)) return;
      clearTimeout(timer);
      resolve();
    });
    child.once('close', (code) => reject(new Error(`the catalog ended with ${code}: ${said.join('')}`)));
  });
  return {
    url: `http://127.0.0.1:${port}`,
    stop: () => killServer(child),
  };
}

export interface CatalogGate {
  readonly url: string;
  /** Each request that came: method, path without query, and status. */
  readonly heard: string[];
  /** Until it opens again on the same port, nobody listens. */
  close(): Promise<void>;
  open(): Promise<void>;
}

/** @param token that callers must show; client credentials `id:secret` are exchanged for it */
export async function openGate(target: string, token: string, credential: string): Promise<CatalogGate> {
  const port = await findFreePort();
  const heard: string[] = [];
  const [id, secret] = credential.split(':');
  const listener = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { method, url = '/', headers } = incoming;
    const note = (status: number) => heard.push(`${method} ${url.split('?')[0]} ${status}`);
    const answer = (status: number, body: object) => {
      note(status);
      outgoing.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    const body = await buffer(incoming);
    if (url === '/v1/oauth/tokens') {
      const form = new URLSearchParams(body.toString());
      const isRight = form.get('client_id') === id && form.get('client_secret') === secret;
      if (isRight) return answer(200, { access_token: token, token_type: 'bearer' });
      return answer(401, { error: { message: `unknown client ${form.get('client_secret')}`, code: 401 } });
    }
    if (headers.authorization !== `Bearer ${token}`)
      return answer(401, { error: { message: `not authorized: ${headers.authorization}`, code: 401 } });
    const onward = request(new URL(url, target), { method, headers });
    onward.end(body);
    const [come] = (await once(onward, 'response')) as [IncomingMessage];
    note(come.statusCode ?? 0);
    outgoing.writeHead(come.statusCode ?? 502, come.headers);
    await pipeline(come, outgoing);
  };
  let server: Server | undefined;
  const gate: CatalogGate = {
    url: `http://127.0.0.1:${port}`,
    heard,
    async open() {
      server = createServer((incoming, outgoing) => {
        // Whoever asked has gone, or the catalog.
        listener(incoming, outgoing).catch(() => outgoing.destroy());
      }).listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
    async close() {
      const closed = server && once(server, 'close');
      server?.close();
      server?.closeAllConnections();
      await closed;
    },
  };
  await gate.open();
  return gate;
}
