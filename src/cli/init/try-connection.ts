/** Asks the API with what `flowdrop init` wrote. */
import { EXIT_CODES } from '../../core/errors.ts';
import { startChild } from '../child.ts';
import type { CliContext, GlobalOptions } from '../context.ts';
import { nameProgram } from '../invocation.ts';
import type { InitChoice } from './init-files.ts';

/** Runs the check as the next command would: in its own process, in that directory. @returns its exit code */
export async function tryConnection(
  { self }: Pick<CliContext, 'self'>,
  globals: GlobalOptions,
  folder: string,
  choice: Pick<InitChoice, 'name' | 'apiUrl' | 'apiKey' | 'apiKeyFile'>,
  print: (text: string) => void,
): Promise<number> {
  const { apiUrl, apiKey, apiKeyFile } = choice;
  // This process may have settings from an older file: the new ones win.
  const fresh: Record<string, string | undefined> = {};
  if (apiUrl) fresh['FLOWDROP_API_URL'] = apiUrl;
  if (apiKey) fresh['FLOWDROP_API_KEY'] = apiKey;
  if (apiKeyFile) Object.assign(fresh, { FLOWDROP_API_KEY: undefined, FLOWDROP_API_KEY_FILE: apiKeyFile });
  const args = [...self.args, '--jobs', globals.jobs, 'check', '--live', choice.name];
  const pass = (line: string) => print(`${line}\n`);
  const child = startChild(
    { executable: self.executable, args, env: { ...self.env, ...fresh }, cwd: folder },
    { onOut: pass, onErr: pass },
  );
  const exitCode = await child.done;
  if (exitCode !== 0)
    print(`The files are written. Correct them, then: ${nameProgram(self.env)} check --live ${choice.name}\n`);
  return exitCode === EXIT_CODES.usage ? EXIT_CODES.usage : exitCode === 0 ? 0 : EXIT_CODES.failed;
}
