/**
 * `flowdrop demo`: everything on this machine, without a key or a cloud: the service with generated sessions in one
 * process, the shipped nightly job in another, all output in `./out`.
 */
import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Fault } from '../core/errors.ts';
import { explainAbort } from '../core/liveness.ts';
import { countOf } from '../core/units.ts';
import { type ChildEnd, startProcess } from '../daemon/run-process.ts';
import type { Job } from '../job/job.ts';
import { readJob } from '../job/job-folder.ts';
import { reportsPrefix } from '../ledger/layout.ts';
import { listClosedSessions, USUAL_ROWS } from '../service/generate/generate.ts';
import { LOCAL_KEY } from './commands.ts';
import { type Call, type Cli, nameProgram, type SelfCommand } from './context.ts';
import { SHIPPED_JOBS } from './init.ts';

const DEMO_FOLDER = 'out';
/** In the demo's folder: the state of your own jobs stays as it is. */
const STATE_FOLDER = 'state';

export async function demo(cli: Cli, { options: { sessions = 3, rows } }: Call<'demo'>) {
  const { terminal, self, cwd, signal, openers } = cli;
  const { shippedJob } = openers;
  const out = join(cwd, DEMO_FOLDER);
  const job = await readJob(shippedJob, cli.globals.jobs);
  const trades = rows === undefined ? `about ${countOf(USUAL_ROWS, 'trade')}` : countOf(rows, 'trade');
  terminal.err(`Generating ${countOf(sessions, 'session')} of ${trades} ...\n`);
  const data = ['--generate', String(sessions), ...(rows === undefined ? [] : ['--generate-rows', String(rows)])];
  const service = await startServeProcess(self, cwd, [...data, '--key', LOCAL_KEY], signal);
  try {
    terminal.err(
      `The options data service answers at ${service.url}; exporting all trades, then the newest option chains, at one request a second ...\n`,
    );
    const env = {
      ...self.env,
      FLOWDROP_API_URL: service.url,
      FLOWDROP_API_KEY: LOCAL_KEY,
      FLOWDROP_LOG_FORMAT: 'pretty',
      FLOWDROP_STATE_DIR: join(out, STATE_FOLDER),
      FLOWDROP_OUTBOX_DIR: join(out, 'mail'),
      FLOWDROP_SMTP_URL: '',
      FLOWDROP_SMTP_URL_FILE: '',
      FLOWDROP_MAIL_DOMAINS: '',
    };
    const [newest = ''] = listClosedSessions(openers.clock.now(), 1);
    const chain = join(dirname(shippedJob), SHIPPED_JOBS.chain);
    for (const command of [
      // A user who deleted the demo's drops wants new ones.
      ['run', shippedJob, '--no-report', '--new-store'],
      // So the report of the newest date has whole chains.
      ['backfill', chain, '--from', newest, '--to', newest],
      ['report', shippedJob],
    ]) {
      const args = [...self.args, ...command];
      const child = startProcess(
        { executable: self.executable, args, cwd, env },
        {
          onOut: (line) => terminal.out(`${line}\n`),
          // On a terminal the run draws its own progress there.
          onErr: terminal.columns.err !== undefined ? 'inherit' : (line) => terminal.err(`${line}\n`),
        },
      );
      signal.addEventListener('abort', () => child.stop(), { once: true });
      const end = await child.done;
      if (end.code !== 0) throw describeEnd(command[0] ?? '', end, 'the lines above say why');
    }
    terminal.out(await describeDemo(cwd, job, nameProgram(self.env)));
    return undefined;
  } finally {
    await service.stop();
  }
}

function describeEnd(what: string, end: ChildEnd, words: string): Fault {
  const message = `the ${what} ended with exit code ${end.code ?? end.signal}: ${words}`;
  return new Fault('DEMO_FAILED', message, { hint: explainAbort(end) });
}

/** Starts `serve` on free ports and waits for its output line. @throws Fault `DEMO_FAILED` if it ends before that */
export async function startServeProcess(self: SelfCommand, cwd: string, flags: readonly string[], signal: AbortSignal) {
  const args = [...self.args, 'serve', '--port', '0', '--portal-port', '0', ...flags];
  const logged: string[] = [];
  return await new Promise<{ readonly url: string; stop(): Promise<void> }>((resolve, reject) => {
    const child = startProcess(
      { executable: self.executable, args, cwd, env: { ...self.env, FLOWDROP_LOG_LEVEL: 'warn' } },
      {
        onOut: (line) => resolve({ url: (JSON.parse(line) as { url: string }).url, stop }),
        onErr: (line) => logged.push(line),
      },
    );
    const stop = async () => {
      child.stop();
      await child.done;
    };
    signal.addEventListener('abort', () => child.stop(), { once: true });
    child.done.then((end) => reject(describeEnd('service', end, logged.join('\n'))), reject);
  });
}

/** What the demo created, and where: the last thing a new user reads. @param program what to type to start a command */
async function describeDemo(cwd: string, { name, drop: { to, dataset } }: Job, program: string): Promise<string> {
  const findLast = async (folder: string, ending: string) => {
    const names = await readdir(folder, { recursive: true }).catch(() => []);
    const [newest] = names.filter((one) => one.endsWith(ending)).sort((a, b) => (a < b ? 1 : -1));
    return newest && join(folder, newest);
  };
  const mail = await findLast(join(cwd, DEMO_FOLDER, 'mail'), '.html');
  const page = await findLast(join(cwd, to, reportsPrefix(name)), 'report.html');
  return `${[
    '',
    `Drops      ${join(cwd, to, dataset)}  (Parquet, one file a session; any reader takes the folder)`,
    ...(mail ? [`Mail       ${mail}  (for a browser; the .eml is beside it)`] : []),
    ...(page ? [`Report     ${page}  (every table, formula and rebuild query)`] : []),
    '',
    'Next, in the folder that has jobs/:',
    `  python3 -c "import pandas as pd; print(pd.read_parquet('${to}/${dataset}', columns=['session', 'symbol']).value_counts().head(10))"`,
    `  duckdb -c "SELECT symbol, count(*) AS records FROM '${to}/${dataset}/**/*.parquet' GROUP BY symbol ORDER BY records DESC LIMIT 10"   # pip install duckdb-cli`,
    `  ${program} query "SELECT symbol, sum(premium) AS total_premium FROM ${dataset}_counted GROUP BY symbol ORDER BY total_premium DESC LIMIT 10" --from-store ${to}`,
    `  FLOWDROP_STATE_DIR=${DEMO_FOLDER}/${STATE_FOLDER} ${program} status ${name}   # the demo's run`,
    `  ${program} verify ${name}   # reads again what was sealed`,
    `  ${program} init desk   # a folder \`desk\` for your own key`,
  ].join('\n')}\n`;
}
