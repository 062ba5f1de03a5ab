/** A run on a real terminal: what its screen shows of the progress line, the notes and the log, from the bytes written. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import xterm from '@xterm/headless';
import { expect, it } from 'vitest';
import { useCleanups } from '../support/cleanups.ts';
import { MAIN, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { findFreePort } from '../support/server-process.ts';

const { folder, keep } = useCleanups();
const hasScript = spawnSync('script', ['--version']).status === 0;

// Skipped where `script`, which gives a process a terminal, is not installed.
it.skipIf(!hasScript)(
  'log lines stand above the progress line of a run, one line each, and leave nothing of it',
  async () => {
    // It answers 429 to most requests of the run, each of which is a line of the log.
    const served = ['--generate', '1', '--generate-rows', '1200', '--row-limit', '200', '--requests-per-second', '2'];
    const service = await keep(startService([...served, '--as-of', '2026-11-20T23:00:00Z']));
    const cwd = await folder();
    const job = await writeJob(cwd, { reports: 'reports: []' });
    const command = `stty cols 80 rows 50; exec "${process.execPath}" "${MAIN}" run "${job}"`;
    const own = { PATH: process.env['PATH'] ?? '', TERM: 'xterm' };
    const env = { ...own, ...service.env, FLOWDROP_REQUESTS_PER_SECOND: '40' };
    const child = spawn('script', ['-qec', command, '/dev/null'], { cwd, env, stdio: ['ignore', 'pipe', 'inherit'] });
    // Wide enough that no line of the log is wrapped.
    const terminal = new xterm.Terminal({ cols: 1_000, rows: 400, allowProposedApi: true });
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
      terminal.write(chunk);
    });
    const [code] = await once(child, 'close');
    await new Promise<void>((resolve) => terminal.write('', resolve));
    expect(code, text).toBe(0);
    expect(text, 'a line with the window').toMatch(/2026-11-20 +\d+% [^\r\n]* req [^\r\n]*\.\./);

    const { active } = terminal.buffer;
    const screen = Array.from({ length: active.length }, (_, y) => active.getLine(y)?.translateToString(true) ?? '');
    const warned = screen.filter((line) => line.includes('WARN'));
    expect(warned.length).toBeGreaterThan(0);
    expect(warned.length).toBe(text.split('WARN').length - 1);
    for (const line of warned) expect(line).toMatch(/^\[\d\d:\d\d:\d\d\] WARN: retry after try \d of 5: /);
    // Nothing else is left: no line of the bar, no field on a line of its own.
    expect(screen.filter((line) => / \d+% | req\b|^ +\w+: /.test(line))).toEqual([]);
    expect(screen.filter((line) => line.startsWith('2026-11-20: sealed, 1,200 rows'))).toHaveLength(1);
    // The results are whole too, and the last that is written.
    expect(screen.filter((line) => /^date +result +rows +size +requests$/.test(line))).toHaveLength(1);
    expect(screen.filter((line) => line.startsWith('Sealed 1 of 1 date,'))).toHaveLength(1);
  },
  120_000,
);

it.skipIf(!hasScript)('a person at a terminal waits for a mail server for a minute', async () => {
  const service = await keep(startService(['--generate', '1', '--generate-rows', '200']));
  const cwd = await folder();
  const job = await writeJob(cwd);
  const own = {
    PATH: process.env['PATH'] ?? '',
    TERM: 'xterm',
    FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${await findFreePort()}`,
  };
  const command = `exec "${process.execPath}" "${MAIN}" run "${job}"`;
  const child = spawn('script', ['-qec', command, '/dev/null'], { cwd, env: { ...own, ...service.env } });
  let text = '';
  child.stdout.on('data', (chunk) => {
    text += chunk;
    if (/next try in .*: /.test(text)) child.kill();
  });
  await once(child, 'close');
  expect(text).toMatch(/was deferred; next try in \d\.\d s, the last within 1 min 0 s: /);
});
