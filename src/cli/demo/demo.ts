/**
 * `flowdrop demo`: the whole way on this machine, no key and no cloud: the service with generated sessions in one
 * process, the shipped nightly job in another, everything into `./out`.
 */
import { Fault } from '../../core/errors.ts';
import { explainAbort } from '../../core/process-end.ts';
import { formatCount } from '../../core/units.ts';
import type { ActionResult, Register } from '../command.ts';
import type { CliContext } from '../context.ts';
import { nameProgram } from '../invocation.ts';
import { LOCAL_KEY } from '../serve.ts';

/** Sessions and trades that make a report worth looking at within a minute at one request a second. */
const DEMO_SESSIONS = 3;
const DEMO_ROWS = 100_000;
const DEMO_FOLDER = 'out';
const DEMO_JOB = 'nightly-trades';

export const registerDemo: Register = (program, context, act) => {
  program
    .command('demo')
    .description('run the shipped nightly job against a service with generated sessions, into ./out')
    .option('--rows <rows>', 'trades of each session', String(DEMO_ROWS))
    .option('--sessions <sessions>', 'trading sessions', String(DEMO_SESSIONS))
    .action(async (options: { rows: string; sessions: string }) => {
      await act(() => demo(context, options));
    });
};

async function demo(cli: CliContext, options: { rows: string; sessions: string }): ActionResult {
  const { join } = await import('node:path');
  const { startService } = await import('./service.ts');
  const { startChild } = await import('../child.ts');
  const { describeDemo } = await import('./output.ts');
  const { terminal, self, compose } = cli;
  const out = join(cli.cwd, DEMO_FOLDER);
  terminal.err(`Generating ${options.sessions} sessions of ${formatCount(Number(options.rows))} trades ...\n`);
  const service = await startService(
    self,
    cli.cwd,
    ['--generate', options.sessions, '--generate-rows', options.rows, '--key', LOCAL_KEY],
    cli.signal,
  );
  try {
    terminal.err(
      `The options data service answers at ${service.url}; running the job ${DEMO_JOB} at one request a second ...\n`,
    );
    const lines: string[] = [];
    const child = startChild(
      {
        executable: self.executable,
        // Whoever removes the drops of a demo wants new ones.
        args: [...self.args, '--json', 'run', join(compose.packageDir, 'jobs', `${DEMO_JOB}.yaml`), '--new-store'],
        cwd: cli.cwd,
        env: {
          ...self.env,
          FLOWDROP_API_URL: service.url,
          FLOWDROP_API_KEY: LOCAL_KEY,
          FLOWDROP_STATE_DIR: join(out, 'state'),
          FLOWDROP_OUTBOX_DIR: join(out, 'mail'),
          FLOWDROP_SMTP_URL: '',
          FLOWDROP_SMTP_URL_FILE: '',
          FLOWDROP_MAIL_DOMAINS: '',
        },
      },
      {
        onOut: (line) => lines.push(line),
        // On a terminal the run draws its own progress there.
        ...(terminal.interactive ? {} : { onErr: (line) => terminal.err(`${formatLogLine(line)}\n`) }),
      },
    );
    cli.signal.addEventListener('abort', () => child.stop(), { once: true });
    const code = await child.done;
    if (code !== 0) {
      throw new Fault('DEMO_FAILED', `the run ended with exit code ${code}: ${lines.join('\n').slice(0, 2000)}`, {
        hint: explainAbort({ code, signal: undefined }) || 'The lines above say why.',
      });
    }
    terminal.out(await describeDemo(out, JSON.parse(lines.join('\n')), nameProgram(self.env)));
    return undefined;
  } finally {
    await service.stop();
  }
}

/** The message of a JSON log line; anything else as it is. */
function formatLogLine(line: string): string {
  try {
    const { msg } = JSON.parse(line) as { msg?: string };
    return msg ? `  ${msg}` : line;
  } catch {
    return line;
  }
}
