/** Processes that each run one command after another: `command-host.mjs`. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Finished } from './flowdrop.ts';

const PROGRAM = fileURLToPath(new URL('command-host.mjs', import.meta.url));

export interface Call {
  readonly args: readonly string[];
  readonly cwd: string;
  /** All of its environment. */
  readonly env: Readonly<Record<string, string>>;
}

/** Without a call to run. One for each command that runs at the same time. */
const idle: CommandHost[] = [];

/** Runs a command of `main` in a process that has run others. */
export async function runInHost(main: string, call: Call): Promise<Finished> {
  const host = idle.pop() ?? new CommandHost(main);
  const finished = await host.run(call);
  if (host.lives) idle.push(host);
  return finished;
}

class CommandHost {
  readonly #end = `\n${randomUUID()}\n`;
  readonly #child: ChildProcess;
  lives = true;

  constructor(main: string) {
    this.#child = spawn(process.execPath, [PROGRAM, main, this.#end], {
      cwd: tmpdir(),
      stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
    });
    this.#child.stdin?.end();
    // A character may be split between two chunks.
    for (const stream of [this.#child.stdout, this.#child.stderr]) stream?.setEncoding('utf8');
    this.#hold(false);
  }

  async run(call: Call): Promise<Finished> {
    this.#hold(true);
    const { stdout, stderr } = this.#child;
    try {
      return await new Promise((resolve, reject) => {
        let [out, err] = ['', ''];
        const finish = () => {
          if (!out.endsWith(this.#end) || !err.endsWith(this.#end)) return;
          const said = out.slice(0, -this.#end.length);
          const at = said.lastIndexOf('\n');
          const code = Number(said.slice(at + 1));
          resolve({ code, stdout: said.slice(0, at), stderr: err.slice(0, -this.#end.length) });
        };
        stdout?.on('data', (chunk) => {
          out += chunk;
          finish();
        });
        stderr?.on('data', (chunk) => {
          err += chunk;
          finish();
        });
        this.#child.once('error', reject);
        this.#child.once('close', (code) => {
          this.lives = false;
          resolve({ code, stdout: out, stderr: err });
        });
        this.#child.send(call);
      });
    } finally {
      for (const emitter of [stdout, stderr]) emitter?.removeAllListeners('data');
      for (const event of ['error', 'close']) this.#child.removeAllListeners(event);
      this.#hold(false);
    }
  }

  /** Whether the process of the tests waits for it. */
  #hold(isAwaited: boolean) {
    const act = isAwaited ? 'ref' : 'unref';
    this.#child[act]();
    this.#child.channel?.[act]();
    for (const stream of [this.#child.stdout, this.#child.stderr]) (stream as Socket | null)?.[act]();
  }
}
