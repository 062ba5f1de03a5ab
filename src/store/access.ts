/**
 * How another reader (the engine) reaches the objects of a store: a folder, or an address with credentials. Types only.
 * An S3 access contains secrets: use it only in statements that no caller sees.
 */
interface DirectoryAccess {
  readonly kind: 'directory';
  /** Absolute path. */
  readonly path: string;
}

export interface S3Access {
  readonly kind: 's3';
  /** Address of the bucket, without a trailing slash: `https://bucket.s3.eu-west-1.amazonaws.com`. */
  readonly bucketUrl: string;
  readonly bucket: string;
  /** Put before every key; empty, or without leading and trailing slashes. */
  readonly prefix: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Only with temporary credentials. */
  readonly sessionToken: string | undefined;
}

export type StoreAccess = DirectoryAccess | S3Access;
