/**
 * What people did on the daemon's page: who, when, what, with which outcome. One JSON object a line, appended and synced
 * before the action begins and after it; what has no second line was cut short. Bounded: the newest half megabyte is
 * kept, and as much before it.
 */
import { appendFile, rename, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { makeFolder, readFileIfExists, tryParseJson } from '../core/atomic-file.ts';

const MAX_BYTES = 512 * 1024;

export const actionEntrySchema = z.object({
  id: z.string(),
  at: z.iso.datetime(),
  /** How the caller proved to be one of us, and from which address. */
  who: z.string(),
  action: z.string(),
  job: z.string().nullable(),
  /** What to type for the same: the words after `flowdrop`; null if no command does it. */
  line: z.string().nullable(),
  /** `asked`: it began, and its end is not known. */
  outcome: z.enum(['asked', 'done', 'started', 'refused', 'failed']),
  text: z.string(),
});

export type ActionEntry = z.infer<typeof actionEntrySchema>;

export function openActionLog(path: string) {
  let writing: Promise<void> = Promise.resolve();
  return { append, list };

  /** @throws the system error when the disk cannot be written */
  async function append(entry: ActionEntry): Promise<void> {
    const write = writing.then(() => writeLine(`${JSON.stringify(entry)}\n`));
    writing = write.catch(() => undefined); // The caller gets the error.
    await write;
  }

  /** Newest first, one for each action: its outcome, or that it was asked for. */
  async function list(limit: number): Promise<readonly ActionEntry[]> {
    const texts = [await readFileIfExists(`${path}.old`), await readFileIfExists(path)];
    const actions = new Map<string, ActionEntry>();
    for (const line of texts.join('\n').split('\n')) {
      const entry = actionEntrySchema.safeParse(tryParseJson(line));
      if (entry.success) actions.set(entry.data.id, entry.data);
    }
    return [...actions.values()].toReversed().slice(0, limit);
  }

  async function writeLine(line: string): Promise<void> {
    await makeFolder(dirname(path));
    const known = await stat(path).catch(() => undefined);
    if (known && known.size > MAX_BYTES) await rename(path, `${path}.old`);
    await appendFile(path, line, { mode: 0o640, flush: true });
  }
}
