/**
 * An endpoint of the service: an operation, the answer to a call, and its own error format. Only the listener knows
 * HTTP; endpoints do not.
 */
import type { Operation } from '../openapi/openapi-operation.ts';
import type { ApiFailure } from './api-failure.ts';

/** A request as an endpoint sees it. */
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

/** A body in pieces; `rows` and `bytes` are final once it has been read to the end. */
export interface CountedBody extends AsyncIterable<Uint8Array> {
  readonly rows: number;
  readonly bytes: number;
}

export interface EndpointAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Whole or in pieces. */
  readonly body: Uint8Array | CountedBody;
  /** Default: JSON. */
  readonly contentType?: string;
  /** Rows in a whole body. Default: 0. */
  readonly rows?: number;
}

export interface Endpoint {
  /** Used in logs and metrics. */
  readonly name: string;
  /** Method, path and description. */
  readonly operation: Operation;
  /** @throws ApiFailure; anything else is reported as an internal error */
  answer(call: Call): Promise<EndpointAnswer>;
  fail(failure: ApiFailure): EndpointAnswer;
}
