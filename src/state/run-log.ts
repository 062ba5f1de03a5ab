/**
 * The log of a run, line by line: JSON objects as flowdrop writes them, or any text. Invariant: only the end of a file is
 * read, so that a log of any size costs the same.
 */
import { open } from 'node:fs/promises';
import { levels } from 'pino';
import { z } from 'zod';
import { tryParseJson } from '../core/atomic-file.ts';

/** Some thousand lines. */
const MAX_READ_BYTES = 1024 * 1024;
/** Lines that a person looks through; a search narrows them. */
const MAX_LINES = 500;
/** Longer lines are cut; the file has them in full. */
const MAX_LINE_CHARACTERS = 4_000;

/** From the least to the gravest. */
const RANKS: readonly string[] = Object.keys(levels.values);

const logLineSchema = z.object({
  at: z.string().nullable(),
  /** `text` for a line that is no JSON object of a log. */
  level: z.string(),
  event: z.string().nullable(),
  text: z.string(),
  fields: z.record(z.string(), z.unknown()),
});

/** The lines, oldest first. */
export const runLogSchema = z.object({
  lines: z.array(logLineSchema),
  size: z.number().meta({ description: 'bytes of the log' }),
  is_cut: z.boolean().meta({ description: 'only the end of the log was read, or only its last lines are here' }),
});

export type RunLog = z.infer<typeof runLogSchema>;

/**
 * The last lines that pass; none for a log that does not exist.
 * @param level the least; lines without one always pass @param text that a line contains, in any case
 */
export async function readRunLog(path: string, level = '', text = ''): Promise<RunLog> {
  const file = await open(path).catch(() => undefined); // A run whose log was not written, or was removed by age.
  if (!file) return { lines: [], size: 0, is_cut: false };
  try {
    const { size } = await file.stat();
    const from = Math.max(0, size - MAX_READ_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    const all = buffer.toString('utf8', 0, bytesRead).split('\n');
    // The first line of a part is none.
    const whole = from > 0 ? all.slice(1) : all;
    const wanted = text.toLowerCase();
    const least = RANKS.indexOf(level);
    const found = whole
      .filter((line) => line.trim() !== '' && line.toLowerCase().includes(wanted))
      .map(parseLine)
      .filter((line) => !RANKS.includes(line.level) || RANKS.indexOf(line.level) >= least);
    return { lines: found.slice(-MAX_LINES), size, is_cut: from > 0 || found.length > MAX_LINES };
  } finally {
    await file.close();
  }
}

function parseLine(line: string): RunLog['lines'][number] {
  const value = tryParseJson(line);
  if (typeof value !== 'object' || value === null || !('level' in value)) {
    return { at: null, level: 'text', event: null, text: cut(line), fields: {} };
  }
  // Each line of a run has its id and its job.
  const { level, time, event, msg, run: _run, job: _job, ...fields } = value as Record<string, unknown>;
  return {
    at: typeof time === 'string' ? time : null,
    level: levels.labels[Number(level)] ?? 'text',
    event: typeof event === 'string' ? event : null,
    text: cut(typeof msg === 'string' ? msg : ''),
    fields: JSON.stringify(fields).length > MAX_LINE_CHARACTERS ? { more: cut(JSON.stringify(fields)) } : fields,
  };
}

function cut(text: string): string {
  return text.length > MAX_LINE_CHARACTERS ? `${text.slice(0, MAX_LINE_CHARACTERS)}…` : text;
}
