/**
 * The answer to a request that no endpoint accepts, because of its path, its method, or a path that cannot be decoded.
 * Pure. The body is ignored: such a request is always refused.
 */

import { ApiFailure, invalidRequest } from './api-failure.ts';
import type { Endpoint } from './endpoint.ts';

interface RefusedRequest {
  /** The endpoint whose error format the answer uses. */
  readonly endpoint: Endpoint;
  readonly failure: ApiFailure;
  readonly headers: Readonly<Record<string, string>>;
}

/** @param url the request target as received, with or without a query */
export function findRefusal(
  endpoints: readonly [Endpoint, ...Endpoint[]],
  method: string,
  url: string,
): RefusedRequest {
  const path = url.split('?')[0] ?? '';
  const here = endpoints.filter((endpoint) => matchesPath(endpoint.operation.path, path));
  const meant = here.find((endpoint) => endpoint.operation.method === method);
  if (meant) return { endpoint: meant, failure: invalidRequest('The address is not valid.'), headers: {} };
  const [endpoint] = here;
  if (!endpoint) {
    const failure = new ApiFailure(404, 'INVALID_REQUEST', 'There is nothing at this address.');
    return { endpoint: endpoints[0], failure, headers: {} };
  }
  const allow = here.map(({ operation }) => operation.method).join(', ');
  const failure = new ApiFailure(405, 'METHOD_NOT_ALLOWED', `Only ${allow} is allowed here.`);
  return { endpoint, failure, headers: { allow } };
}

/** Whether a path matches the endpoint's pattern; `:name` stands for one segment. */
function matchesPath(pattern: string, path: string): boolean {
  const [wanted, given] = [pattern.split('/'), path.split('/')];
  return wanted.length === given.length && wanted.every((part, at) => part.startsWith(':') || part === given[at]);
}
