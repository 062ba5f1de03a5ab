/**
 * The address and credentials of an S3 store, resolved by the SDK's own chain: environment, profile or role. They are
 * read once; temporary credentials are not renewed.
 */
import type { S3Access } from './access.ts';
import { createS3Client, type S3Options } from './s3-client.ts';
import { attemptS3 } from './s3-fault.ts';

/** Credentials may come from a cloud service, which answers at once or not at all. */
const REQUEST_TIMEOUT_MS = 10_000;

/** @throws StoreFault if there are no credentials or no region */
export async function readS3Access(options: S3Options): Promise<S3Access> {
  const { bucket, prefix } = options;
  const client = createS3Client(options, REQUEST_TIMEOUT_MS);
  try {
    return await attemptS3('open', `s3://${bucket}`, undefined, async () => {
      const { accessKeyId, secretAccessKey, sessionToken } = await client.config.credentials();
      return {
        kind: 's3',
        bucketUrl: await readBucketUrl(client, bucket),
        bucket,
        prefix,
        accessKeyId,
        secretAccessKey,
        sessionToken,
      };
    });
  } finally {
    client.destroy();
  }
}

async function readBucketUrl({ config }: ReturnType<typeof createS3Client>, bucket: string): Promise<string> {
  const configured = config.endpoint ? await config.endpoint() : await config.serviceConfiguredEndpoint?.();
  const endpoint = typeof configured === 'string' ? configured : configured && formatEndpoint(configured);
  const { url } = config.endpointProvider({
    Bucket: bucket,
    Region: await config.region(),
    // The engine recognises a bucket in the host name only for Amazon's own hosts.
    ForcePathStyle: config.forcePathStyle === true || endpoint !== undefined,
    ...(endpoint === undefined ? {} : { Endpoint: endpoint }),
  });
  return url.href.replace(/\/$/, '');
}

function formatEndpoint(endpoint: {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number | undefined;
  readonly path: string;
}): string {
  const { protocol, hostname, port, path } = endpoint;
  return `${protocol}//${hostname}${port === undefined ? '' : `:${port}`}${path}`;
}
