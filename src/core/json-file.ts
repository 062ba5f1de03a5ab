/**
 * Small local JSON documents that flowdrop keeps for itself. Invariant: a truncated or damaged document, or one of
 * another version, counts as absent, because its content can be rebuilt. Do not use this for data that must not be
 * lost.
 */
import type { z } from 'zod';
import { readFileIfExists } from './atomic-file.ts';

/** `undefined` when the file is absent or invalid. @throws the system error when the file cannot be read */
export async function readJsonFile<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  const text = await readFileIfExists(path);
  if (text === undefined) return undefined;
  const parsed = schema.safeParse(tryParseJson(text));
  return parsed.success ? parsed.data : undefined;
}

/** `undefined` when the text is not JSON. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
