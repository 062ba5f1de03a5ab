/** A run on a real terminal: what its screen shows of the progress line, the notes and the log, from the bytes written. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { MAIN, makeFolder, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

const CONTROL = String.raw`\u001b(?:\[\??\d*[A-Za-z]|[78])`;
const CONTROLS = new RegExp(String.raw`[\r\n]|${CONTROL}`);
const TOKENS = new RegExp(String.raw`${CONTROL}|[\s\S]`, 'g');

const hasScript = spawnSync('script', ['--version']).status === 0;

// Skipped where `script`, which gives a process a terminal, is not installed.
it.skipIf(!hasScript)(
  'log lines stand above the progress line of a run, one line each, and leave nothing of it',
  async () => {
    // It answers 429 to most requests of the run, each of which is a line of the log.
    const service = await startService([
      ...['--generate', '1', '--generate-rows', '1200', '--row-limit', '200', '--as-of', '2026-11-20T23:00:00Z'],
      ...['--requests-per-second', '2'],
    ]);
    const { path: cwd, remove } = await makeFolder();
    try {
      const job = await writeJob(cwd, { reports: 'reports: []' });
      const command = `stty cols 80 rows 50; exec "${process.execPath}" "${MAIN}" run "${job}"`;
      const own = { PATH: process.env['PATH'] ?? '', TERM: 'xterm' };
      const env = { ...own, ...service.env, FLOWDROP_REQUESTS_PER_SECOND: '40' };
      const child = spawn('script', ['-qec', command, '/dev/null'], { cwd, env, stdio: ['ignore', 'pipe', 'inherit'] });
      let text = '';
      child.stdout.on('data', (chunk) => {
        text += chunk;
      });
      const [code] = await once(child, 'close');
      expect(code, text).toBe(0);
      const drawn = text.split(CONTROLS).filter((line) => /^2026-11-20 +\d+% /.test(line));
      expect(drawn.filter((line) => / req .*\.\./.test(line)).length, 'lines with the window').toBeGreaterThan(0);

      const screen = readScreen(text);
      const warned = screen.filter((line) => line.includes('WARN'));
      expect(warned.length).toBeGreaterThan(0);
      expect(warned.length).toBe(text.split('WARN').length - 1);
      for (const line of warned) expect(line).toMatch(/^\[\d\d:\d\d:\d\d\] WARN: retry after try \d of 5: /);
      // Nothing else is left: no line of the bar, no field on a line of its own.
      expect(screen.filter((line) => / \d+% | req\b|^ +\w+: /.test(line))).toEqual([]);
      expect(screen.filter((line) => line.startsWith('2026-11-20: sealed, 1,200 rows'))).toHaveLength(1);
      // The results are whole too, and the last that is written.
      expect(screen.filter((line) => /^date +result +rows +size +requests$/.test(line))).toHaveLength(1);
      expect(screen.filter((line) => line.startsWith('Sealed 1 of 1 date(s)'))).toHaveLength(1);
    } finally {
      await remove();
      await service.stop();
    }
  },
  120_000,
);

/** What a terminal shows after these bytes, as far as the program uses its controls; lines wider than it are not wrapped. */
function readScreen(text: string): readonly string[] {
  const lines: string[] = [''];
  let [row, column] = [0, 0];
  let saved = { row: 0, column: 0 };
  for (const [token] of text.matchAll(TOKENS)) {
    const line = lines[row] ?? '';
    if (token === '\n') row += 1;
    else if (token === '\r' || token === '\u001b[1G') column = 0;
    else if (token === '\u001b7') saved = { row, column };
    else if (token === '\u001b8') ({ row, column } = saved);
    else if (token === '\u001b[K' || token === '\u001b[0K') lines[row] = line.slice(0, column);
    else if (token === '\u001b[2K') lines[row] = '';
    else if (/^.\[(\?\d+[hl]|\d*m)$/.test(token)) continue;
    else if (token.startsWith('\u001b'))
      throw new RangeError(`a control that this screen does not know: ${JSON.stringify(token)}`);
    else {
      lines[row] = `${line.slice(0, column).padEnd(column)}${token}${line.slice(column + 1)}`;
      column += 1;
    }
  }
  return lines;
}
