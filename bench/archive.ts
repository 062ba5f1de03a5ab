/**
 * A year of sealed sessions, and twelve questions that a desk asks it: flowdrop beside DuckDB and Polars over the same
 * files, warm and cold. An answer's time counts only when all readers gave the same answer.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { formatBytes, formatCount } from '../src/core/units.ts';
import { openEmbeddedEngine } from '../src/engine/embedded.ts';
import { quoteString } from '../src/engine/literal.ts';
import { dropKey } from '../src/ledger/layout.ts';
import { openDirectoryStore } from '../src/store/directory.ts';
import { findPython } from '../test/support/python.ts';
import { type ArchiveQuestion, listQuestions, type QuestionScope } from './support/archive-questions.ts';
import {
  type AnswerRow,
  type ArchiveReader,
  openFlowdropReader,
  openPeer,
  type Peer,
  type ProcessUse,
  readUse,
} from './support/archive-readers.ts';
import { formatRatio, median, type RunBench, say } from './support/bench.ts';
import { atMost, type NoteGoal } from './support/goal.ts';
import { makeYear, YEAR_DATASET, type Year } from './support/year.ts';

/** Against the fastest peer: the median question, and the worst. */
const REACH_MEDIAN = 1;
const REACH_WORST = 2;
/** Sums of the same numbers in another order differ in their last digits. */
const RELATIVE_TOLERANCE = 1e-9;
/** The contract whose history is asked lives on for so many days. */
const CONTRACT_DAYS = 30;

interface Taken extends ProcessUse {
  readonly ms: number;
}

/** By question and reader, flowdrop first: what each answer took. */
type Times = ReadonlyMap<ArchiveQuestion, readonly (readonly Taken[])[]>;

export const benchArchive: RunBench = async ({ rows: most, sessions, repeat, note }) => {
  const year = await makeYear({ sessions, rows: most });
  const { path, isMissing } = findPython();
  const python = isMissing ? undefined : path;
  const peers: readonly Peer[] = [
    { engine: 'duckdb', python },
    ...(python === undefined ? [] : [{ engine: 'polars' as const, python }]),
  ];
  const rows = formatCount(year.sessions * year.rows);
  const questions = listQuestions(await chooseScope(year));
  const local = await withReaders(year, peers, async (readers) => {
    const first = await measure('warm', readers, questions, repeat + 1, (reader, question) => reader.ask(question));
    const warm = withoutFirst(first);
    const cold = await measure('cold', readers, questions, repeat, async (reader, question) => {
      await forgetFiles(year);
      return await reader.askCold(question);
    });
    noteTimes(note, `${rows} rows, warm`, warm);
    noteTimes(note, `${rows} rows, cold`, cold);
    const names = readers.map(({ name }) => name);
    const coldTitle = `Cold: milliseconds from the start of a process to its end, medians of ${repeat}; the files are not in the system's cache`;
    return [
      describeTimes(`Warm: milliseconds of an open reader, medians of ${repeat}`, names, warm),
      describeTimes('Warm: milliseconds of CPU, which depend less on what else the machine does', names, warm, 'cpuMs'),
      describeTimes('Warm: bytes read', names, warm, 'bytes'),
      describeTimes(coldTitle, names, cold),
    ];
  });
  return [
    `A year of ${formatCount(year.sessions)} sessions, ${rows} rows, ${formatBytes(year.sizeBytes)}: all answers equal`,
    ...local,
  ].join('\n\n');
};

/**
 * Asks every reader every question once. @returns the questions that had rows
 * @throws when two readers answer a question differently
 */
export async function compareAnswers(year: Year, peers: readonly Peer[]): Promise<readonly string[]> {
  const questions = listQuestions(await chooseScope(year));
  const found: string[] = [];
  await withReaders(year, peers, (readers) =>
    measure('answers', readers, questions, 1, async (reader, question) => {
      const answer = await reader.ask(question);
      if (answer.rows.length > 0 && !found.includes(question.name)) found.push(question.name);
      return answer;
    }),
  );
  return found;
}

async function withReaders<T>(
  year: Year,
  peers: readonly Peer[],
  act: (readers: readonly ArchiveReader[]) => Promise<T>,
): Promise<T> {
  const store = await openDirectoryStore(year.folder);
  const readers: ArchiveReader[] = [];
  try {
    readers.push(await openFlowdropReader(year, store));
    for (const peer of peers) readers.push(await openPeer(peer, year.folder));
    return await act(readers);
  } finally {
    for (const reader of readers) await reader.close();
    await store.close();
  }
}

type Ask = (reader: ArchiveReader, question: ArchiveQuestion) => ReturnType<ArchiveReader['ask']>;

/** In turn, so that whatever else the machine does hits all of them. */
async function measure(
  what: string,
  readers: readonly ArchiveReader[],
  questions: readonly ArchiveQuestion[],
  rounds: number,
  ask: Ask,
): Promise<Times> {
  const times = new Map(questions.map((question) => [question, readers.map((): Taken[] => [])]));
  for (let round = 1; round <= rounds; round += 1) {
    for (const [question, taken] of times) {
      let expected: readonly AnswerRow[] | undefined;
      for (const [index, reader] of readers.entries()) {
        const before = readUse(reader.pids);
        const { ms, rows } = await ask(reader, question);
        const after = readUse(reader.pids);
        expected ??= rows;
        assertEqual(question, reader, rows, expected);
        taken[index]?.push({ ms, cpuMs: after.cpuMs - before.cpuMs, bytes: after.bytes - before.bytes });
      }
      say(
        `archive: ${what}, ${round} of ${rounds}, ${question.name}: ${taken.map((each) => formatMs(each.at(-1)?.ms)).join(', ')} ms`,
      );
    }
  }
  return times;
}

/** Warm is what comes after the first answer. */
function withoutFirst(times: Times): Times {
  return new Map([...times].map(([question, taken]) => [question, taken.map((each) => each.slice(1))]));
}

function assertEqual(
  { name }: ArchiveQuestion,
  reader: ArchiveReader,
  rows: readonly AnswerRow[],
  expected: readonly AnswerRow[],
): void {
  const isSame = rows.length === expected.length && rows.every((row, index) => isSameRow(row, expected[index] ?? []));
  if (isSame) return;
  const at = rows.findIndex((row, index) => !isSameRow(row, expected[index] ?? []));
  throw new Error(
    `"${name}" has ${rows.length} rows from ${reader.name} and ${expected.length} from flowdrop; row ${at}: ${JSON.stringify(rows[at])} and ${JSON.stringify(expected[at])}`,
  );
}

function isSameRow(a: AnswerRow, b: AnswerRow): boolean {
  return a.length === b.length && a.every((value, index) => isSameValue(value, b[index]));
}

function isSameValue(a: unknown, b: unknown): boolean {
  if (typeof a === 'number' && typeof b === 'number')
    return Math.abs(a - b) <= RELATIVE_TOLERANCE * Math.max(1, Math.abs(a), Math.abs(b));
  return a === b || (typeof a === 'string' && typeof b === 'string' && trimTime(a) === trimTime(b));
}

/** Readers differ in whether a date has a time of midnight, and a time its fraction of zeros. */
function trimTime(text: string): string {
  return text.replace(/^(\d{4}-\d{2}-\d{2}.*?)\.0+$/, '$1').replace(/^(\d{4}-\d{2}-\d{2}) 00:00:00$/, '$1');
}

/** Takes the year's files out of the system's cache; what cannot be taken out stays (other systems than Linux). */
async function forgetFiles({ folder, dates }: Year): Promise<void> {
  const files = dates.map((date) => join(folder, dropKey(YEAR_DATASET, date)));
  const script = 'for file; do dd if="$file" iflag=nocache count=0 status=none || exit 0; done';
  await promisify(execFile)('sh', ['-c', script, 'sh', ...files]);
}

/** The day in the middle, its month and quarter, and the contract with most trades on it among those that live on. */
async function chooseScope({ folder, dates }: Year): Promise<QuestionScope> {
  const day = dates[dates.length >> 1] ?? '';
  const month = Number(day.slice(5, 7)) - 1;
  const monthAt = (index: number) => new Date(Date.UTC(Number(day.slice(0, 4)), index, 1)).toISOString().slice(0, 10);
  const quarter = month - (month % 3);
  const engine = await openEmbeddedEngine();
  try {
    const [found] = await engine.rows<{ contract: string }>(
      `SELECT option_symbol AS contract FROM file(${quoteString(join(folder, dropKey(YEAR_DATASET, day)))}, Parquet)
       WHERE expiry_days >= ${CONTRACT_DAYS} GROUP BY contract ORDER BY count() DESC, contract LIMIT 1`,
    );
    return {
      day,
      month: [monthAt(month), monthAt(month + 1)],
      quarter: [monthAt(quarter), monthAt(quarter + 3)],
      contract: found?.contract ?? '',
    };
  } finally {
    await engine.close();
  }
}

function noteTimes(note: NoteGoal, what: string, times: Times): void {
  const ratios = [...times].map(([question, taken]) => ({ question, ratio: ratioOf(taken, 'ms') }));
  note(
    atMost(
      `archive, ${what}: median question / fastest peer`,
      REACH_MEDIAN,
      median(ratios.map(({ ratio }) => ratio)),
      formatRatio,
    ),
  );
  const [worst] = ratios.sort((a, b) => b.ratio - a.ratio);
  if (worst)
    note(atMost(`archive, ${what}: worst question (${worst.question.name})`, REACH_WORST, worst.ratio, formatRatio));
}

type Measure = keyof Taken;

function medianOf(taken: readonly Taken[], measure: Measure): number {
  return median(taken.map((each) => each[measure]));
}

/** Against the peer that took least. */
function ratioOf([own = [], ...peers]: readonly (readonly Taken[])[], measure: Measure): number {
  return medianOf(own, measure) / Math.min(...peers.map((peer) => medianOf(peer, measure)));
}

function describeTimes(title: string, names: readonly string[], times: Times, measure: Measure = 'ms'): string {
  const format = measure === 'bytes' ? formatBytes : formatMs;
  const lines = [...times].map(([{ name }, taken]) => [
    name,
    ...taken.map((each) => format(medianOf(each, measure))),
    formatRatio(ratioOf(taken, measure)),
  ]);
  const middle = median([...times.values()].map((taken) => ratioOf(taken, measure)));
  const last = ['median', ...names.map(() => ''), formatRatio(middle)];
  return [title, '', formatTable(['question', ...[...names, 'ratio'].map(right)], [...lines, last])].join('\n');
}

function formatMs(ms: number | undefined): string {
  return ms === undefined ? '' : ms.toFixed(ms < 10 ? 1 : 0);
}
