/** Completion: what may come next, in which shells, and at what cost. Real bash; zsh and fish where they are installed. */
import { execFile, spawnSync } from 'node:child_process';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { useCleanups } from '../../support/cleanups.ts';
import { flowdrop, MAIN, REPO } from '../../support/flowdrop.ts';

const run = promisify(execFile);
const { folder } = useCleanups();

let cwd: string;
/** PATH with a `flowdrop` in it. */
let path: string;

beforeAll(async () => {
  cwd = await folder();
  for (const name of ['jobs', 'elsewhere', 'bin']) await mkdir(join(cwd, name));
  // Not even valid: completion must not read them.
  const jobs = ['nightly-trades.yaml', 'nightly-chains.yml', 'two words.yaml', 'notes.txt'];
  for (const file of [...jobs.map((name) => `jobs/${name}`), 'elsewhere/far.yaml'])
    await writeFile(join(cwd, file), 'name: [');
  const program = join(cwd, 'bin', 'flowdrop');
  await writeFile(program, `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`);
  await chmod(program, 0o755);
  path = `${join(cwd, 'bin')}:${process.env['PATH'] ?? ''}`;
});

async function complete(words: readonly string[]): Promise<readonly string[]> {
  const { code, stdout } = await flowdrop(['complete', '--', ...words], { cwd });
  expect(code).toBe(0);
  return stdout.split('\n').flatMap((line) => (line === '' ? [] : [line.split('\t')[0] ?? '']));
}

describe('what may come next', () => {
  it.each([
    { words: ['ru'], is: ['run', 'runs'] },
    { words: ['st'], is: ['status', 'start'] },
    { words: ['plan', 'nightly-'], is: ['nightly-chains', 'nightly-trades'] },
    { words: ['run', 'nightly-t'], is: ['nightly-trades'] },
    { words: ['--jobs', 'elsewhere', 'run', ''], is: ['far'] },
    { words: ['run', '--jobs=elsewhere', ''], is: ['far'] },
    { words: ['run', '--jobs', 'nowhere', ''], is: [] },
    // The one job of `run` is there.
    { words: ['run', 'nightly-trades', ''], is: [] },
    { words: ['check', 'nightly-trades', 'two'], is: ['two words'] },
    { words: ['backfill', 'nightly-trades', '--fr'], is: ['--from'] },
    // A date is nothing that we know.
    { words: ['backfill', 'nightly-trades', '--from', ''], is: [] },
    { words: ['backfill', 'nightly-trades', '--dry-run', '--d'], is: ['--debug'] },
    { words: ['--js'], is: ['--json'] },
    { words: ['query', '--job', 'nightly-t'], is: ['nightly-trades'] },
    { words: ['query', 'SELECT 1', '--format', 'ar'], is: ['arrow'] },
    // Once is enough, but for a list.
    { words: ['query', 'SELECT 1', '--format', 'csv', '--for'], is: ['--force'] },
    { words: ['init', '--symbols', 'SPY', '--sy'], is: ['--symbols'] },
    { words: ['init', 'desk', ''], is: [] },
    { words: ['completion', ''], is: ['bash', 'zsh', 'fish'] },
    { words: ['query', '--', '-'], is: [] },
    { words: ['nothing', ''], is: 'commands' },
  ])('after $words', async ({ words, is }) => {
    const found = await complete(words);
    if (is === 'commands') expect(found).toContain('run');
    else expect(found).toEqual(is);
  });

  it('of nothing is every command that the help lists, and none that it hides', async () => {
    const { stdout } = await flowdrop(['--help'], { cwd });
    const listed = [...stdout.matchAll(/^ {2}([a-z]+)\b/gm)].map(([, name]) => name);
    expect(listed).not.toContain('complete');
    expect(await complete([''])).toEqual(listed);
  });

  it('costs no package but commander', () => {
    const child = spawnSync(process.execPath, [MAIN, 'complete', '--', 'run', ''], {
      cwd,
      env: { PATH: process.env['PATH'], NODE_DEBUG: 'esm,module' },
      encoding: 'utf8',
    });
    expect(child.stdout).toContain('nightly-trades');
    const packages = Array.from(child.stderr.matchAll(/node_modules\/((?:@[\w-]+\/)?[\w-]+)/g), ([, name]) => name);
    expect([...new Set(packages)]).toEqual(['commander']);
  });
});

describe('the script', () => {
  /** What bash would offer, by its own function for it. */
  async function completeInBash(...words: readonly string[]): Promise<readonly string[]> {
    const script = `
      source <(flowdrop completion bash)
      COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=\${#COMP_LINE}
      _flowdrop
      printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout } = await run('bash', ['-c', script, 'bash', ...words], { cwd, env: { PATH: path } });
    return stdout.split('\n').filter((line) => line !== '');
  }

  it('of bash is registered, completes commands, flags and jobs, quotes what needs it, and leaves files to the shell', async () => {
    const { stdout } = await run('bash', ['-c', 'source <(flowdrop completion bash); complete -p flowdrop'], {
      cwd,
      env: { PATH: path },
    });
    expect(stdout.trim()).toBe('complete -o default -F _flowdrop flowdrop');
    expect(await completeInBash('flowdrop', 'verif')).toEqual(['verify']);
    expect(await completeInBash('flowdrop', 'verify', 'night')).toEqual(['nightly-chains', 'nightly-trades']);
    expect(await completeInBash('flowdrop', 'verify', '--de')).toEqual(['--deep', '--debug']);
    expect(await completeInBash('flowdrop', 'plan', 'two')).toEqual(['two\\ words']);
    expect(await completeInBash('flowdrop', 'backfill', 'x', '--from', '')).toEqual([]);
  });

  const hasFish = spawnSync('fish', ['--version']).status === 0;
  const hasZsh = spawnSync('zsh', ['--version']).status === 0;

  // Skipped where fish is not installed: it is in no base system.
  it.skipIf(!hasFish)('of fish completes with descriptions', async () => {
    const ask = async (line: string) => {
      const script = `flowdrop completion fish | source; complete -C '${line}'`;
      const { stdout } = await run('fish', ['--no-config', '-c', script], { cwd, env: { PATH: path, HOME: cwd } });
      return stdout.split('\n').filter((found) => found !== '');
    };
    expect(await ask('flowdrop verif')).toEqual([expect.stringMatching(/^verify\tre-hash/)]);
    expect(await ask('flowdrop plan night')).toEqual(['nightly-chains\tjob', 'nightly-trades\tjob']);
    expect(await ask('flowdrop plan ')).toHaveLength(3);
  });

  // Skipped where zsh is not installed: it is in no base system.
  it.skipIf(!hasZsh)('of zsh is read and registered', async () => {
    const script =
      'autoload -Uz compinit; compinit -D; source <(flowdrop completion zsh); print -r -- $_comps[flowdrop]';
    const { stdout } = await run('zsh', ['-f', '-c', script], { cwd, env: { PATH: path, HOME: cwd } });
    expect(stdout.trim()).toBe('_flowdrop');
  });

  it('of a shell that is not known is refused with those that are', async () => {
    const { code, stderr } = await flowdrop(['completion', 'tcsh'], { cwd: REPO });
    expect(code).toBe(2);
    expect(stderr).toContain('bash, zsh, fish');
  });
});
