/**
 * Parses request bodies, JSON or form-encoded, into the values that endpoints validate. Invariant: a form's boolean
 * gets the type that it would have in JSON; the endpoints check everything else. Pure.
 */
import { ApiFailure } from './api-failure.ts';

/** @throws ApiFailure INVALID_REQUEST */
export function parseJson(text: string): unknown {
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ApiFailure(400, 'INVALID_REQUEST', 'The request body is not valid JSON.', { cause });
  }
}

/** The form's fields; of a repeated field the last value counts. */
export function parseForm(text: string): Readonly<Record<string, string | boolean>> {
  const fields: Record<string, string | boolean> = {};
  for (const [name, value] of new URLSearchParams(text)) {
    const isFlag = name === 'test_mode' && /^(true|false|1|0)$/i.test(value);
    fields[name] = isFlag ? /^(true|1)$/i.test(value) : value;
  }
  return fields;
}
