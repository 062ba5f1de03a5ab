/**
 * What the option chain and market-structure endpoints have in common: who may enter, how a request is read, and how a
 * failure is answered. The specification does not show the body of their failures: it is that of the historical ones.
 */
import type { z } from 'zod';
import { type ApiFailure, internalError, invalidRequest, queryTimeout, toApiFailure } from '../http/api-failure.ts';
import type { EndpointAnswer } from '../http/endpoint.ts';

/** Who may ask for a product, and how often; the service's gate is one. */
export interface Entrance {
  /** @throws ApiFailure 401, 403, 429 */
  enter(
    credentials: { readonly apiKey?: string | undefined; readonly session?: string | undefined },
    product: 'chain' | 'market-structure',
  ): unknown;
}

/** @throws ApiFailure INVALID_REQUEST that names the first member which does not fit */
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

/** The failure of a snapshot that could not be read: the SQL is the service's own, so it is never the caller's fault. */
export function toSnapshotFailure(error: unknown): ApiFailure {
  if (error instanceof DOMException && error.name === 'TimeoutError') return queryTimeout(error);
  const failure = toApiFailure(error, '');
  return failure.status === 422 ? internalError(error) : failure;
}
