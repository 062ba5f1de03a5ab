/** How much one request to S3 may carry and how long it may take. Tests pass smaller ones; no setting does. */

const MIB = 1024 * 1024;

/** Bounds of one request, in bytes and milliseconds. */
export interface S3Limits {
  /** Up to this, one PutObject: it needs half the round trips, and fits in memory so that the SDK can repeat it. */
  readonly putBytes: number;
  /** S3 allows 5 MiB at least; 8 MiB is repeated within a second or two when a connection breaks. */
  readonly partBytes: number;
  /** Up to this, one CopyObject: S3's limit. */
  readonly copyBytes: number;
  /** No byte passes through here, so large parts: a copy of 100 GiB is two hundred requests. */
  readonly copyPartBytes: number;
  /** From the request to the head of the answer: one part over a slow line, or a service under load. */
  readonly requestTimeoutMs: number;
}

export const S3_LIMITS: S3Limits = {
  putBytes: 16 * MIB,
  partBytes: 8 * MIB,
  copyBytes: 5 * 1024 * MIB,
  copyPartBytes: 512 * MIB,
  requestTimeoutMs: 120_000,
};
