/** How an S3 store is reached: the variables of the AWS tools, and `FLOWDROP_S3_PATH_STYLE`. */
import type { S3Options } from '../store/s3-client.ts';
import type { Environment } from './setting-list.ts';
import { assertAwsKeys, readFlag } from './settings.ts';

export function s3Options(
  env: Environment,
  { bucket, prefix }: { readonly bucket: string; readonly prefix: string },
): S3Options {
  assertAwsKeys(env);
  return {
    bucket,
    prefix,
    endpoint: env['AWS_ENDPOINT_URL_S3'] || undefined,
    region: env['AWS_REGION'] || undefined,
    pathStyle: env['FLOWDROP_S3_PATH_STYLE'] ? readFlag(env, 'FLOWDROP_S3_PATH_STYLE') : undefined,
  };
}

/**
 * Where clients of a catalog find the store, in the words of Iceberg's clients; no credentials. Names of properties differ between clients, so each fact has those of
 * Java and Python.
 */
export function readS3Defaults(env: Environment): Readonly<Record<string, string>> {
  const { AWS_ENDPOINT_URL_S3: endpoint, AWS_REGION: region } = env;
  const address = endpoint && URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  const isPathStyle = Boolean(env['FLOWDROP_S3_PATH_STYLE'] && readFlag(env, 'FLOWDROP_S3_PATH_STYLE'));
  return {
    ...(address ? { 's3.endpoint': `${address.protocol}//${address.host}${address.pathname.replace(/\/$/, '')}` } : {}),
    ...(region ? { 'client.region': region, 's3.region': region } : {}),
    ...(isPathStyle ? { 's3.path-style-access': 'true' } : {}),
  };
}
