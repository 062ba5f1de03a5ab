/**
 * A year of sealed sessions, and twelve questions that a desk asks it: flowdrop beside DuckDB and Polars over the same
 * files. An answer's time counts only when all readers gave the same answer. Warm, cold, and over a store that is 50 ms
 * away, where bytes and requests are counted.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { formatTable } from '../src/cli/terminal/text-table.ts';
import { formatBytes, formatCount, formatPercent } from '../src/core/units.ts';
import { openEmbeddedEngine } from '../src/engine/embedded.ts';
import { quoteString } from '../src/engine/literal.ts';
import { dropKey } from '../src/ledger/layout.ts';
import { openDirectoryStore } from '../src/store/directory.ts';
import { openS3Store } from '../src/store/s3.ts';
import { readS3Access } from '../src/store/s3-access.ts';
import { findPython } from '../test/support/python.ts';
import { useS3Credentials } from '../test/support/s3-server.ts';
import { type ArchiveQuestion, listQuestions, type QuestionScope } from './support/archive-questions.ts';
import {
  type AnswerRow,
  type ArchiveReader,
  describeFiles,
  describeObjects,
  openFlowdropReader,
  openPeer,
  type Peer,
} from './support/archive-readers.ts';
import { formatRatio, median, type RunBench, say } from './support/bench.ts';
import { atMost, type NoteGoal } from './support/goal.ts';
import { startSlowStore } from './support/slow-store.ts';
import { makeYear, YEAR_DATASET, type Year } from './support/year.ts';

/** Against the fastest peer: the median question, and the worst. */
const REACH_MEDIAN = 1;
const REACH_WORST = 2;
/** Bytes read by a question about one symbol and month, of the year's. */
const REACH_SHARE = 0.03;
const LATENCY_MS = 50;
/** Sums of the same numbers in another order differ in their last digits. */
const RELATIVE_TOLERANCE = 1e-9;
/** The contract whose history is asked lives on for so many days. */
const CONTRACT_DAYS = 30;

export const benchArchive: RunBench = async ({ rows, sessions, repeat, note }) => {
  const year = await makeYear({ sessions, rows });
  const { path, isMissing } = findPython();
  const python = isMissing ? undefined : path;
  return await measureArchive(year, {
    repeat,
    note,
    peers: [
      { engine: 'duckdb', python },
      { engine: 'polars', python },
    ],
  });
};

interface MeasureOptions {
  /** Rounds that count; each reader has answered once before. */
  readonly repeat: number;
  readonly note: NoteGoal;
  readonly peers: readonly Peer[];
}

/** Milliseconds by question and reader. */
type Times = ReadonlyMap<ArchiveQuestion, readonly (readonly number[])[]>;

/** @throws when two readers answer a question differently */
export async function measureArchive(year: Year, { repeat, note, peers }: MeasureOptions): Promise<string> {
  const questions = listQuestions(await chooseScope(year));
  const place = { store: await openDirectoryStore(year.folder), location: year.folder };
  const access = { kind: 'directory' as const, path: year.folder };
  const readers: ArchiveReader[] = [];
  try {
    readers.push(await openFlowdropReader({ ...place, access }, year.dates.at(-1) ?? ''));
    for (const peer of peers) readers.push(await openPeer(peer, describeFiles(year.folder)));
    const warm = await measure('warm', readers, questions, repeat + 1, (reader, question) => reader.ask(question));
    const cold = await measure('cold', readers, questions, repeat, async (reader, question) => {
      await forgetFiles(year);
      return await reader.askCold(question);
    });
    noteTimes(note, `${formatCount(year.sessions * year.rows)} rows, warm`, withoutFirst(warm));
    noteTimes(note, `${formatCount(year.sessions * year.rows)} rows, cold`, cold);
    const names = readers.map(({ name }) => name);
    return [
      `A year of ${formatCount(year.sessions)} sessions, ${formatCount(year.sessions * year.rows)} rows, ${formatBytes(year.sizeBytes)}: all answers equal`,
      describeTimes(`Warm: milliseconds of an open reader, medians of ${repeat}`, names, withoutFirst(warm)),
      describeTimes(
        `Cold: milliseconds from the start of a process to its end, medians of ${repeat}; the files are not in the system's cache`,
        names,
        cold,
      ),
      await measureStore(year, questions, peers, note),
    ].join('\n\n');
  } finally {
    for (const reader of readers) await reader.close();
    await place.store.close();
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
  const times = new Map(questions.map((question) => [question, readers.map((): number[] => [])]));
  for (let round = 1; round <= rounds; round += 1) {
    for (const [question, taken] of times) {
      let expected: readonly AnswerRow[] | undefined;
      for (const [index, reader] of readers.entries()) {
        const { ms, rows } = await ask(reader, question);
        expected ??= rows;
        assertEqual(question, reader, rows, expected);
        taken[index]?.push(ms);
      }
      say(
        `archive: ${what}, ${round} of ${rounds}, ${question.name}: ${taken.map((ms) => formatMs(ms.at(-1))).join(', ')} ms`,
      );
    }
  }
  return times;
}

/** Warm is what comes after the first answer. */
function withoutFirst(times: Times): Times {
  return new Map([...times].map(([question, taken]) => [question, taken.map((ms) => ms.slice(1))]));
}

function assertEqual(
  { name }: ArchiveQuestion,
  reader: ArchiveReader,
  rows: readonly AnswerRow[],
  expected: readonly AnswerRow[],
): void {
  if (rows.length === 0) throw new Error(`${reader.name} found nothing for "${name}": the question measures nothing`);
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
  const ratios = [...times].map(([question, taken]) => ({ question, ratio: ratioOf(taken) }));
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

/** flowdrop comes first. */
function ratioOf([own = [], ...peers]: readonly (readonly number[])[]): number {
  return median(own) / Math.min(...peers.map(median));
}

function describeTimes(title: string, names: readonly string[], times: Times): string {
  const right = 'right' as const;
  const columns = [
    { title: 'question' },
    ...names.map((name) => ({ title: name, align: right })),
    { title: 'ratio', align: right },
  ];
  const lines = [...times].map(([{ name }, taken]) => [
    name,
    ...taken.map((ms) => formatMs(median(ms))),
    formatRatio(ratioOf(taken)),
  ]);
  const middle = median([...times.values()].map(ratioOf));
  return [title, '', formatTable(columns, [...lines, ['median', ...names.map(() => ''), formatRatio(middle)]])].join(
    '\n',
  );
}

function formatMs(ms: number | undefined): string {
  return ms === undefined ? '' : ms.toFixed(ms < 10 ? 1 : 0);
}

/** Each question once by each reader that can read the store, opened for it alone: nothing is known of the files. */
async function measureStore(
  year: Year,
  questions: readonly ArchiveQuestion[],
  peers: readonly Peer[],
  note: NoteGoal,
): Promise<string> {
  const store = await startSlowStore(year.folder, LATENCY_MS);
  const credentials = { accessKeyId: 'bench', secretAccessKey: 'bench-secret' };
  const region = 'us-east-1';
  const server = { ...credentials, region, endpoint: store.endpoint, bucket: store.bucket, pathStyle: true };
  useS3Credentials(server);
  const options = { bucket: store.bucket, prefix: '', region, pathStyle: true, endpoint: store.endpoint };
  const own = await openS3Store(options);
  try {
    const place = { store: own, access: await readS3Access(options), location: `s3://${store.bucket}` };
    const openers = [
      () => openFlowdropReader(place, year.dates.at(-1) ?? ''),
      // DuckDB's own S3 client is an extension that has to be downloaded.
      ...peers
        .filter(({ engine, python }) => engine === 'polars' && python !== undefined)
        .map((peer) => () => openPeer(peer, describeObjects(server))),
    ];
    const lines: string[][] = [];
    for (const question of questions) {
      let expected: readonly AnswerRow[] | undefined;
      for (const open of openers) {
        const before = { requests: store.requests, bytes: store.bytes };
        const reader = await open();
        const opened = { requests: store.requests, bytes: store.bytes };
        try {
          const { ms, rows } = await reader.ask(question);
          expected ??= rows;
          assertEqual(question, reader, rows, expected);
          const share = (store.bytes - opened.bytes) / year.sizeBytes;
          lines.push([
            question.name,
            reader.name,
            formatMs(ms),
            formatCount(store.requests - opened.requests),
            formatCount(opened.requests - before.requests),
            formatBytes(store.bytes - opened.bytes),
            formatPercent(share, 2),
          ]);
          say(`archive: store, ${lines.at(-1)?.join(', ')}`);
          if (question.isNarrow && reader.name === 'flowdrop')
            note(
              atMost(`archive: bytes of "${question.name}"`, REACH_SHARE, share, (value) => formatPercent(value, 2)),
            );
        } finally {
          await reader.close();
        }
      }
    }
    const titles = ['question', 'reader', 'ms', 'requests', 'to open', 'bytes', 'of the year'];
    const columns = titles.map((title, index) => ({
      title,
      align: index < 2 ? ('left' as const) : ('right' as const),
    }));
    return [`Over a store whose every answer takes ${LATENCY_MS} ms`, '', formatTable(columns, lines)].join('\n');
  } finally {
    await own.close();
    await store.close();
  }
}
