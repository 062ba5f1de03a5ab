/**
 * An operation of the service: its route and its part of the interface description. Each endpoint has one, so the
 * description lists exactly the endpoints that the service has.
 */
import type { z } from 'zod';
import type { SchemaName } from './openapi-schemas.ts';

/** Example values by name; each is valid against the schema next to it. */
export type Examples = Readonly<Record<string, unknown>>;

/** Headers that the description defines once. */
export type HeaderName = 'Retry-After' | 'Allow' | 'Set-Cookie' | 'X-Service-Historical-Sql-Minimum-Data-Delay-Minutes';

interface OperationRequest {
  readonly contentTypes: readonly string[];
  readonly schema: SchemaName;
  readonly examples?: Examples;
}

export interface OperationResponse {
  readonly status: number;
  readonly description: string;
  /** With several schemas, the body matches any of them. */
  readonly schema: SchemaName | readonly SchemaName[];
  /** Default: application/json. */
  readonly contentType?: string;
  readonly headers?: readonly HeaderName[];
  readonly examples?: Examples;
}

export interface Operation {
  readonly operationId: string;
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** In the router's notation, e.g. `/api/v1/market-structure/:symbol`. */
  readonly path: string;
  /** Default: the main address. */
  readonly address?: 'portal';
  readonly summary: string;
  readonly description: string;
  readonly tag: 'Historical SQL' | 'Snapshots' | 'Session' | 'Service';
  /** Alternatives; `body` is the body member `api_key`, for which OpenAPI has no scheme. */
  readonly security: readonly ('bearer' | 'session' | 'body')[];
  readonly pathParameters?: z.ZodObject;
  readonly queryParameters?: z.ZodObject;
  readonly request?: OperationRequest;
  readonly responses: readonly OperationResponse[];
}

export const JSON_OR_FORM = ['application/json', 'application/x-www-form-urlencoded'] as const;

/** The operation without a member of its answers' examples, at a service whose answers never have it. */
export function omitFromExamples(operation: Operation, member: string): Operation {
  const omit = (examples: Examples) =>
    JSON.parse(JSON.stringify(examples, (name, value: unknown) => (name === member ? undefined : value))) as Examples;
  return {
    ...operation,
    responses: operation.responses.map(({ examples, ...response }) =>
      examples === undefined ? response : { ...response, examples: omit(examples) },
    ),
  };
}
