/** Interface description of the session and operator endpoints. A table of data. */

import { JSON_OR_FORM, type Operation } from './openapi-operation.ts';

export const LOGIN: Operation = {
  operationId: 'login',
  method: 'POST',
  path: '/api/session',
  summary: 'Open a session with a key',
  description:
    'Sets a cookie that the POST endpoints accept in place of the key, until it expires or the service restarts.',
  tag: 'Session',
  security: ['body'],
  request: {
    contentTypes: JSON_OR_FORM,
    schema: 'LoginRequest',
    examples: { key: { api_key: 'cus_0123456789abcdef' } },
  },
  responses: [
    {
      status: 200,
      description: 'The session is open.',
      schema: 'LoginSuccess',
      headers: ['Set-Cookie'],
      examples: { open: { status: 'SUCCESS', expires_at: '2026-11-20T07:15:00.000Z' } },
    },
    { status: 400, description: 'The body is not valid: INVALID_REQUEST.', schema: 'HistoricalFailure' },
    { status: 401, description: 'The key is missing or not valid: UNAUTHORIZED.', schema: 'HistoricalFailure' },
    {
      status: 429,
      description: 'Too many sessions opened with this key: RATE_LIMITED.',
      schema: 'HistoricalFailure',
      headers: ['Retry-After'],
    },
  ],
};

export const LOGOUT: Operation = {
  operationId: 'logout',
  method: 'DELETE',
  path: '/api/session',
  summary: 'End the session',
  description: 'Removes the cookie. Also succeeds without a session.',
  tag: 'Session',
  security: [],
  responses: [
    {
      status: 200,
      description: 'There is no session any more.',
      schema: 'LogoutSuccess',
      headers: ['Set-Cookie'],
      examples: { closed: { status: 'SUCCESS' } },
    },
  ],
};

export const READ_HEALTH: Operation = {
  operationId: 'readHealth',
  method: 'GET',
  path: '/healthz',
  summary: 'State of the service',
  description: 'Answers 200 as soon as requests are answered.',
  tag: 'Service',
  security: [],
  responses: [
    {
      status: 200,
      description: 'The service answers requests.',
      schema: 'Health',
      examples: { ok: { status: 'ok' } },
    },
  ],
};

export const READ_METRICS: Operation = {
  operationId: 'readMetrics',
  method: 'GET',
  path: '/metrics',
  summary: 'Metrics for Prometheus',
  description: 'Counts and durations of requests, state of the engines, process.',
  tag: 'Service',
  security: [],
  responses: [{ status: 200, description: 'The metrics.', schema: 'Metrics', contentType: 'text/plain' }],
};

export const READ_DESCRIPTION: Operation = {
  operationId: 'readDescription',
  method: 'GET',
  path: '/openapi.json',
  summary: 'This description',
  description: 'OpenAPI 3.1, made from the schemas that validate requests.',
  tag: 'Service',
  security: [],
  responses: [{ status: 200, description: 'The description.', schema: 'Description' }],
};
