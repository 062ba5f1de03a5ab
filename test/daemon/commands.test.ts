/** Small commands of the daemon as real child processes, some of which hang. Their results are tested where they are used. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { type Commands, createCommands } from '../../src/daemon/run-process.ts';
import { makeStatus } from './web/views.ts';

const HANGS = 'process.on("SIGTERM", () => {}); console.log("."); setInterval(() => {}, 1000)';
const SAYS_STATUS = `console.log(${JSON.stringify(JSON.stringify([makeStatus('nightly')]))})`;

let commands: Commands | undefined;
afterEach(async () => {
  commands?.stop();
  commands?.kill();
  await commands?.untilIdle();
});

/** Each command is a script by the name of its job. */
function create(scripts: Readonly<Record<string, string>>, clock = systemClock): Commands {
  const commandOf = (args: readonly string[]) => ({
    executable: process.execPath,
    args: ['-e', scripts[args.find((arg) => arg in scripts) ?? ''] ?? ''],
    env: { PATH: process.env['PATH'] },
    cwd: process.cwd(),
  });
  commands = createCommands(commandOf, clock);
  return commands;
}

it('a mail server that hangs holds up no status', async () => {
  const created = create({ hangs: HANGS, nightly: SAYS_STATUS });
  const alerts = [1, 2, 3].map(() => created.read(['alert', 'hangs']).catch(() => undefined));
  expect(await created.read(['status', 'nightly'])).toMatchObject([{ job: 'nightly' }]);
  commands?.stop();
  commands?.kill();
  await Promise.all(alerts);
});

describe('a command that hangs', () => {
  it('is killed when its time is over, and those that wait come to their turn', async () => {
    const late: (() => void)[] = [];
    const clock = {
      now: Date.now,
      sleep: (_ms: number, signal?: AbortSignal) =>
        new Promise<void>((resolve, reject) => {
          late.push(resolve);
          signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
        }),
    };
    const created = create({ hangs: HANGS, nightly: SAYS_STATUS }, clock);
    const readStatus = (file: string) => created.read(['status', file]);
    const hanging = [readStatus('hangs'), readStatus('hangs')].map((reading) => reading.catch(String));
    const waiting = readStatus('nightly');
    await vi.waitFor(() => expect(late).toHaveLength(2));
    for (const end of late.splice(0)) end();
    for (const end of await Promise.all(hanging)) expect(end).toContain('was ended by SIGKILL');
    expect(await waiting).toMatchObject([{ job: 'nightly' }]);
  });

  it('does not outlive the daemon, and nothing that waits behind it is started', async () => {
    const created = create({ hangs: HANGS });
    const alerts = [1, 2].map(() => created.read(['alert', 'hangs']).catch(String));
    await vi.waitFor(() => created.stop());
    created.kill();
    await created.untilIdle();
    expect((await Promise.all(alerts)).join()).toMatch(/SIGKILL|stopping/);
    expect((await Promise.all(alerts))[1]).toContain('the daemon is stopping');
  });
});

const says = (results: unknown) => `console.log(${JSON.stringify(JSON.stringify(results))}); process.exitCode = 2`;

it('the check of a job file says why the file is refused, and nothing of what hindered the check itself', async () => {
  const created = create({
    good: says([{ job: 'good', ok: true, message: 'all is well' }]),
    bad: says([{ job: 'bad', ok: false, code: 'JOB_INVALID', message: 'bad.yaml:4: LIMIT' }]),
    away: says([{ job: 'away', ok: false, code: 'ENGINE_UNAVAILABLE', message: 'no library' }]),
    crashes: 'process.abort()',
  });
  await expect(created.checkJob('bad')).rejects.toMatchObject({ code: 'JOB_INVALID', message: 'bad.yaml:4: LIMIT' });
  for (const file of ['good', 'away', 'crashes']) expect(await created.checkJob(file)).toBeUndefined();
});
