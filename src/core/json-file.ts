/**
 * Small JSON documents that flowdrop keeps for itself on this disk. Invariant: one that was cut short, damaged or written by
 * another version is worth no more than none, because whatever is in it can be learnt or done again. What must not be lost
 * is not read by this.
 */
import type { z } from 'zod';
import { readFileIfExists } from './atomic-file.ts';

/** `undefined` when there is none, or it is not in shape. @throws what the system says of a file that cannot be read */
export async function readJsonFile<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  const text = await readFileIfExists(path);
  if (text === undefined) return undefined;
  const parsed = schema.safeParse(tryParseJson(text));
  return parsed.success ? parsed.data : undefined;
}

/** `undefined` for a text that is no JSON. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
