/**
 * A real S3 server for the tests: the one named in `FLOWDROP_TEST_S3_*`, else a single-node Ceph that `s3-start.sh`
 * installs and starts (as root on Debian). Invariant: only loopback is ever used, and in CI there is no way without one.
 * The server stays for the next test run; `s3-stop.sh` in this folder ends it.
 */
import { execFile } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type ServerStart, startExternal } from './external.ts';
import { findObstacle } from './server-process.ts';

export interface S3Server {
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly pathStyle: boolean;
}

/** What the server has beside a bucket: a key of its KMS, and a storage class that is not the default. */
export const S3_KMS_KEY = 'flowdrop-test-key';
export const S3_STORAGE_CLASS = 'STANDARD_IA';

const SCRIPT = fileURLToPath(new URL('s3-start.sh', import.meta.url));
/** Beside the script's own default, so that a server started by hand is left alone. */
const DEFAULT_PORT = '19400';
/** Installing takes the most of it. */
const START_TIMEOUT_MS = 300_000;
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** Idempotent, also across processes. @throws when `CI` is set and there is no server: CI skips nothing */
export async function startS3(): Promise<ServerStart<S3Server>> {
  return await startExternal('an S3 server', findOrStart);
}

/** Puts the server's credentials where the AWS SDK looks for them. */
export function useS3Credentials(server: S3Server): void {
  process.env['AWS_ACCESS_KEY_ID'] = server.accessKeyId;
  process.env['AWS_SECRET_ACCESS_KEY'] = server.secretAccessKey;
}

/** What `flowdrop` needs in its environment to use the server. */
export function s3Environment(server: S3Server): Readonly<Record<string, string>> {
  return {
    AWS_ENDPOINT_URL_S3: server.endpoint,
    AWS_REGION: server.region,
    AWS_ACCESS_KEY_ID: server.accessKeyId,
    AWS_SECRET_ACCESS_KEY: server.secretAccessKey,
    FLOWDROP_S3_PATH_STYLE: String(server.pathStyle),
  };
}

async function findOrStart(): Promise<ServerStart<S3Server>> {
  const endpoint = process.env['FLOWDROP_TEST_S3_ENDPOINT'];
  if (endpoint) return { server: readServer(process.env, 'FLOWDROP_TEST_S3_'), reason: undefined };
  const obstacle = await findObstacle('s3-start.sh', '', 'Ceph');
  const reason = `${obstacle}, or give FLOWDROP_TEST_S3_ENDPOINT and the rest`;
  if (obstacle !== undefined) return { server: undefined, reason };
  try {
    const { stdout } = await promisify(execFile)(SCRIPT, [join(tmpdir(), 'flowdrop-test-s3')], {
      env: { S3_PORT: DEFAULT_PORT, ...process.env },
      timeout: START_TIMEOUT_MS,
    });
    return { server: readServer(parseAssignments(stdout), 'S3_'), reason: undefined };
  } catch (error) {
    return { server: undefined, reason: `s3-start.sh failed: ${String(error)}` };
  }
}

function readServer(values: Readonly<Record<string, string | undefined>>, prefix: string): S3Server {
  const endpoint = values[`${prefix}ENDPOINT`] ?? '';
  // Without this, a typing error would run the tests against somebody's cloud.
  if (!LOOPBACK.test(new URL(endpoint).hostname))
    throw new Error(`${prefix}ENDPOINT must be loopback, not ${endpoint}`);
  return {
    endpoint,
    bucket: values[`${prefix}BUCKET`] ?? 'flowdrop-test',
    region: values[`${prefix}REGION`] ?? 'us-east-1',
    accessKeyId: values[`${prefix}ACCESS_KEY_ID`] ?? 'flowdrop',
    secretAccessKey: values[`${prefix}SECRET_ACCESS_KEY`] ?? 'flowdrop-secret',
    pathStyle: (values[`${prefix}PATH_STYLE`] ?? values[`${prefix}FORCE_PATH_STYLE`] ?? 'true') === 'true',
  };
}

function parseAssignments(text: string): Record<string, string> {
  return Object.fromEntries([...text.matchAll(/^(\w+)=(.*)$/gm)].map(([, name = '', value = '']) => [name, value]));
}
