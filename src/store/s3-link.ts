/**
 * Presigned addresses of S3 objects: whoever has one reads that object until it ends, and can do nothing else. Signing
 * asks nothing of the service, so neither the object nor the right to read it is looked for.
 */
import { GetObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import type { Clock } from '../core/clock.ts';
import type { ObjectLink } from './link.ts';
import type { ObjectAddress } from './s3-confirm.ts';

/** @param seconds checked by `assertLinkSeconds` */
export async function signLink(
  client: S3Client,
  object: ObjectAddress,
  seconds: number,
  clock: Clock,
): Promise<ObjectLink> {
  // Few runs make links; the others need not load it.
  const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
  // The signature knows whole seconds only.
  const signedAtMs = Math.floor(clock.now() / 1000) * 1000;
  const { expiration } = await client.config.credentials();
  const url = await getSignedUrl(client, new GetObjectCommand(object), {
    expiresIn: seconds,
    signingDate: new Date(signedAtMs),
  });
  const askedMs = signedAtMs + seconds * 1000;
  return { url, expiresAt: new Date(Math.min(askedMs, expiration?.getTime() ?? askedMs)) };
}
