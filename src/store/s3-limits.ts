/** Limits of size and time of one S3 request. Tests pass smaller ones; no setting changes them. */

const MIB = 1024 * 1024;

/** Bounds of one request, in bytes and milliseconds. */
export interface S3Limits {
  /** Up to this size, one PutObject: it needs half the round trips, and fits in memory so that the SDK can retry it. */
  readonly putBytes: number;
  /** S3 requires at least 5 MiB; 8 MiB can be resent within a second or two when a connection breaks. */
  readonly partBytes: number;
  /** Up to this size, one CopyObject: S3's limit. */
  readonly copyBytes: number;
  /** Parts can be large, because no byte passes through this machine: a copy of 100 GiB is two hundred requests. */
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
