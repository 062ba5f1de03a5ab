/**
 * A route of the service: its address, its part of the interface description, and the answer to a call. Each route has
 * all three, so the description lists exactly what the service has. Only the listener knows HTTP; routes do not.
 */
import type { z } from 'zod';
import { type ApiFailure, invalidRequest } from './api-failure.ts';

/** A request as a route sees it. */
export interface Call {
  /** The parsed JSON or form body; `undefined` when there is none. */
  readonly body: unknown;
  readonly query: Readonly<Record<string, unknown>>;
  /** Named segments of the path, decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** The Authorization header. */
  readonly authorization: string | undefined;
  /** The verified content of the session cookie, if it is valid. */
  readonly session: string | undefined;
  /** IP address of the caller, or of the proxy in front of the service. */
  readonly address: string;
  /** Aborted when the caller disconnects, the call takes too long, or the service stops. */
  readonly signal: AbortSignal;
}

/** What is sent with status 200. */
export interface Answer {
  readonly headers?: Readonly<Record<string, string>>;
  /** Whole, or in pieces. */
  readonly body: string | Uint8Array | AsyncIterable<Uint8Array>;
  /** Default: JSON. */
  readonly contentType?: string;
  /** Rows in the body, called when all of it has been sent. Default: 0. */
  readonly rows?: () => number;
}

/** Headers that the description defines once. */
export type HeaderName = 'Retry-After' | 'Allow' | 'Set-Cookie' | 'X-Service-Historical-Sql-Minimum-Data-Delay-Minutes';

export interface Described {
  readonly description: string;
  /** With several schemas, the body matches any of them. Default: that of the route's failures. */
  readonly schema?: z.ZodType | readonly z.ZodType[] | undefined;
}

export interface Route {
  /** Used in logs and metrics. */
  readonly name: string;
  readonly operationId: string;
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** In the router's notation, e.g. `/api/v1/market-structure/:symbol`. */
  readonly path: string;
  /** Whether it is at the separate address. */
  readonly isPortal?: boolean;
  readonly summary: string;
  readonly description: string;
  readonly tag: 'Historical SQL' | 'Snapshots' | 'Session' | 'Service';
  /** Alternatives; `body` is the body member `api_key`, for which OpenAPI has no scheme. */
  readonly security: readonly ('bearer' | 'session' | 'body')[];
  readonly pathParameters?: z.ZodObject;
  readonly queryParameters?: z.ZodObject;
  /** JSON or a form. */
  readonly request?: z.ZodType;
  readonly success: Described & { readonly headers?: readonly HeaderName[]; readonly contentType?: string };
  readonly failureSchema?: z.ZodType;
  /** By status. */
  readonly failures?: Readonly<Record<number, string | Described>>;
  /** @throws ApiFailure; anything else is reported as an internal error */
  answer(call: Call): Promise<Answer>;
  /** The failure as this route reports it. Default: unchanged. */
  translate?(failure: ApiFailure): ApiFailure;
}

/** Failures that most routes have. */
export const USUAL_FAILURES = {
  401: 'The key is missing or not valid: UNAUTHORIZED.',
  403: 'The caller is not entitled: SUBSCRIPTION_REQUIRED.',
  405: 'Any other method: METHOD_NOT_ALLOWED.',
  429: 'Too many requests: RATE_LIMITED. Wait as long as Retry-After says.',
  500: 'The service failed: INTERNAL_ERROR. The same request may succeed later.',
  504: 'The query took too long and was stopped: QUERY_TIMEOUT.',
} as const;

/** @throws ApiFailure INVALID_REQUEST that names the first invalid member */
export function parseRequest<Schema extends z.ZodType>(schema: Schema, request: unknown): z.output<Schema> {
  const parsed = schema.safeParse(request ?? {});
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue && issue.path.length > 0 ? `${issue.path.join('.')}: ` : '';
  throw invalidRequest(`The request is not valid: ${where}${issue?.message ?? 'unknown shape'}.`);
}
