/**
 * Shared by the option chain and market-structure endpoints: admission, request parsing, and error answers. The
 * specification does not show the body of their errors; it is the same as for the historical endpoints.
 */

import type { z } from 'zod';
import type { Credentials } from '../access/gate.ts';
import { type ApiFailure, internalError, invalidRequest, queryTimeout, toApiFailure } from '../http/api-failure.ts';
import type { EndpointAnswer } from '../http/endpoint.ts';

/** Checks who may ask for a product, and how often; `Gate` implements it. */
export interface Entrance {
  /** @throws ApiFailure 401, 403, 429 */
  enter(credentials: Credentials, product: 'chain' | 'market-structure'): unknown;
}

/** @throws ApiFailure INVALID_REQUEST that names the first invalid member */
export function parseRequest<Schema extends z.ZodType>(schema: Schema, request: unknown): z.output<Schema> {
  const parsed = schema.safeParse(request);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue && issue.path.length > 0 ? `${issue.path.join('.')}: ` : '';
  throw invalidRequest(`The request is not valid: ${where}${issue?.message ?? 'unknown shape'}.`);
}

export function answerFailure({ status, errorCode, message, details }: ApiFailure): EndpointAnswer {
  const { retryAfterSeconds } = details;
  return {
    status,
    headers: retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) },
    body: Buffer.from(JSON.stringify({ status: 'ERROR', errorCode, errorMsg: message })),
  };
}

/** The failure for a snapshot that could not be read. The SQL is the service's own, so the caller is never at fault. */
export function toSnapshotFailure(error: unknown): ApiFailure {
  if (error instanceof DOMException && error.name === 'TimeoutError') return queryTimeout(error);
  const failure = toApiFailure(error, '');
  return failure.status === 422 ? internalError(error) : failure;
}
