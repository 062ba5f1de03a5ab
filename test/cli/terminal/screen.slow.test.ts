/**
 * Commands on a real terminal of 80 and of 120 columns: `script` gives them one, and a terminal emulator draws what they
 * print. No line runs over the edge but for a word that is longer than the line, such as a path.
 */
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import xterm from '@xterm/headless';
import { beforeAll, describe, expect, it } from 'vitest';
import { useCleanups } from '../../support/cleanups.ts';
import { flowdrop, MAIN, startService, type TestService } from '../../support/flowdrop.ts';
import { writeJob } from '../../support/jobs.ts';

const ROWS = 400;
/** Without util-linux there is no `script`, which makes the terminal. */
const hasScript = spawnSync('script', ['--version']).status === 0;
if (!hasScript) console.warn('SKIPPED: the terminal, because `script` of util-linux is not installed');

let cwd: string;
let service: TestService;
const { cleanups, folder } = useCleanups();

beforeAll(async () => {
  cwd = await folder();
  service = await startService(['--generate', '2', '--generate-rows', '800', '--as-of', '2026-11-20T23:00:00Z']);
  cleanups.push(service.stop);
  await writeJob(cwd, { name: 'nightly' });
});

/** @returns the lines as they are drawn, and those that ran over the edge into the next one, joined */
async function draw(args: readonly string[], cols: number) {
  const command = [process.execPath, MAIN, '--jobs', cwd, ...args].map((word) => `'${word}'`).join(' ');
  const child = spawn('script', ['-qfec', `stty cols ${cols} rows 50; ${command}`, '/dev/null'], {
    cwd,
    env: { PATH: process.env['PATH'], TERM: 'xterm-256color', HOME: cwd, ...service.env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const terminal = new xterm.Terminal({ cols, rows: ROWS, allowProposedApi: true });
  child.stdout.on('data', (data: Buffer) => terminal.write(data));
  await new Promise((resolve) => child.once('close', resolve));
  await new Promise<void>((resolve) => terminal.write('', resolve));
  const buffer = terminal.buffer.active;
  const rows = Array.from({ length: buffer.length }, (_, y) => buffer.getLine(y));
  const lines = rows.map((row) => row?.translateToString(true) ?? '');
  const overlong = rows.flatMap((row, y) => (row?.isWrapped ? [`${lines[y - 1]}${lines[y]}`] : []));
  return { lines: lines.slice(0, lines.findLastIndex((line) => line !== '') + 1), overlong };
}

/** The longest word of a line, with its indent. */
function longestWord(line: string): number {
  return Math.max(...line.split(/ +/).map(({ length }) => length)) + (line.length - line.trimStart().length);
}

describe.skipIf(!hasScript)('on a terminal', () => {
  it.each([80, 120])('of %i columns a run ends with all that it has to say', async (cols) => {
    const { lines, overlong } = await draw(['backfill', 'nightly', '--all'], cols);
    const text = lines.join('\n').replace(/\n {2}/g, ' ');
    // The second width finds what the first one sealed.
    expect(text).toMatch(/2026-11-19 +(sealed|unchanged) +800 /);
    expect(text).toMatch(/Sealed \d of 2 dates, [\d,]+ rows, \d+ requests, /);
    expect(text).toContain(join(cwd, 'drops', 'trades').slice(-20));
    expect(overlong.filter((line) => longestWord(line) < cols)).toEqual([]);
  });

  it.each(
    [80, 120].flatMap((cols) =>
      [
        ['doctor', 'nightly'],
        ['check', 'nightly', '--live'],
        ['plan', 'nightly'],
        ['status'],
        ['status', '--list'],
        ['runs'],
        ['verify', 'nightly'],
        ['drop', 'nightly', '2026-11-20'],
        ['gap', 'list', 'nightly'],
        ['query', 'SELECT * FROM trades LIMIT 2', '--job', 'nightly'],
        ['run', 'nigthly'],
        ['--help'],
        ['run', '--help'],
      ].map((args) => [cols, args] as const),
    ),
  )('of %i columns no line of %j runs over the edge', async (cols, args) => {
    const { lines, overlong } = await draw(args, cols);
    expect(lines.length).toBeGreaterThan(0);
    // People read `Nov 20, 16:45 ET`; rows of data stay as they are.
    if (args[0] !== 'query') expect(lines.join('\n')).not.toMatch(/\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}/);
    expect(overlong.filter((line) => longestWord(line) < cols)).toEqual([]);
  });

  it('has no line that a pipe has broken: there nothing is wrapped', async () => {
    const { stdout } = await flowdrop(['doctor', 'nightly'], { cwd, env: service.env });
    expect(stdout).toMatch(/^ok {4}disk .*free for .*a night needs about/m);
  });
});
