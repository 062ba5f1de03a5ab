/**
 * How another reader than ours (the engine) reaches the objects of a store: a folder, or an address with credentials.
 * Types only. Whoever holds an S3 access holds secrets: it is for statements that no caller sees.
 */
interface DirectoryAccess {
  readonly kind: 'directory';
  /** Absolute. */
  readonly path: string;
}

export interface S3Access {
  readonly kind: 's3';
  /** Address of the bucket, without a slash at its end: `https://bucket.s3.eu-west-1.amazonaws.com`. */
  readonly bucketUrl: string;
  readonly bucket: string;
  /** Put before every key; empty, or without slashes at its ends. */
  readonly prefix: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Of temporary credentials. */
  readonly sessionToken: string | undefined;
}

export type StoreAccess = DirectoryAccess | S3Access;
