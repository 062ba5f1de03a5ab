/**
 * `npm run nightly [-- PART...] [--seed S] [--runs N]`: the long and the random, and what needs large installs (made as needed, as root on Debian). CI
 * has short cases of all. Without a part all run, one after the other. Each draws a new seed unless one is given, and appends a line to
 * `TALLY.md`, whatever its result. The exit code is 1 if a part failed.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { REPO } from '../support/flowdrop.ts';
import { parseCount } from '../support/program.ts';

const TALLY_PATH = 'test/nightly/TALLY.md';
const TALLY = join(REPO, TALLY_PATH);
const SEEDS = 1_000_000;

/** A program that takes `--runs` and `--seed`, if it draws. */
interface Program {
  readonly script: string;
  readonly args?: readonly string[];
  readonly runs?: number;
}

/** Test files, in which everything is long. */
interface Files {
  readonly files: readonly string[];
  readonly isDrawn?: true;
}

const PARTS: Readonly<Record<string, Program | Files>> = {
  chaos: { script: 'test/chaos/main.ts', runs: 200 },
  lives: { script: 'test/simulate/main.ts', runs: 300 },
  daemons: { script: 'test/daemon/main.ts', args: ['--ticks', '100', '--kills', '5'] },
  soak: { script: 'test/daemon/soak.ts', args: ['--hours', '24'] },
  scale: { script: 'bench/main.ts', args: ['scale', '--repeat', '1'] },
  mutations: { script: 'test/nightly/mutate.ts', runs: 40 },
  week: { files: ['test/flow/week.slow.test.ts'] },
  fortnight: { files: ['test/simulate/fortnight.slow.test.ts'] },
  kills: { files: ['test/flow/kill.slow.test.ts'], isDrawn: true },
  commits: { files: ['test/ledger/iceberg/killed-commits.slow.test.ts'], isDrawn: true },
  random: {
    files: [
      'test/archive/pruning.slow.test.ts',
      'test/export/audits/random-days.slow.test.ts',
      'test/export/trades/complete-random.slow.test.ts',
      'test/export/trades/moving.slow.test.ts',
      'test/guard/windowed-sql-property.slow.test.ts',
      'test/service/visibility-property.slow.test.ts',
    ],
    isDrawn: true,
  },
  spark: {
    files: [
      'test/catalog/attach.external.test.ts',
      'test/contract/folder-readers.external.test.ts',
      'test/contract/iceberg-readers.external.test.ts',
      'test/contract/iceberg-restated.external.test.ts',
      'test/docs/python.external.test.ts',
      'test/docs/table.external.test.ts',
    ],
  },
  catalog: { files: ['test/catalog/registered-table.slow.test.ts'] },
  cluster: { files: ['test/nightly/cluster.nightly.test.ts'] },
  helm: { files: ['test/nightly/helm.nightly.test.ts'] },
  notebook: { files: ['test/nightly/notebook.nightly.test.ts'] },
  site: { files: ['test/nightly/site.nightly.test.ts'] },
  release: { files: ['test/deploy/release.slow.test.ts'] },
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seed: { type: 'string' }, runs: { type: 'string' } },
});
for (const name of positionals) {
  if (!PARTS[name])
    throw new RangeError(`there is no part ${JSON.stringify(name)}; there are ${Object.keys(PARTS).join(', ')}`);
}
const given = values.seed === undefined ? undefined : parseCount('--seed', values.seed);
const runs = values.runs === undefined ? undefined : parseCount('--runs', values.runs);
const git = (...words: readonly string[]) => execFileSync('git', words, { cwd: REPO, encoding: 'utf8' }).trim();

for (const name of positionals.length > 0 ? positionals : Object.keys(PARTS)) {
  const part = PARTS[name] as Program | Files; // Checked above.
  const seed = given ?? Date.now() % SEEDS;
  const isDrawn = 'files' in part ? part.isDrawn === true : part.runs !== undefined || name === 'daemons';
  const count = 'files' in part ? undefined : part.runs && (runs ?? part.runs);
  console.log(`nightly: ${name}${isDrawn ? `, seed ${seed}` : ''}`);
  const begun = performance.now();
  const { code, last } = await run(describeCommand(part, { seed, count, isDrawn }), seed, isDrawn);
  const seconds = Math.round((performance.now() - begun) / 1000);
  if (code !== 0) process.exitCode = 1;
  const commit = `${git('rev-parse', '--short', 'HEAD')}${git('status', '--porcelain', '--', '.', `:!${TALLY_PATH}`) === '' ? '' : ' and changes'}`;
  const drawn = isDrawn ? ` seeds ${seed}${count === undefined ? '' : ` to ${seed + count - 1}`},` : '';
  const result = `${code === 0 ? 'passed' : 'FAILED'}: ${last}`;
  const day = new Date().toISOString().slice(0, 10);
  appendFileSync(TALLY, `- ${day}, ${commit}, ${name}:${drawn} runs ${count ?? 1}, ${seconds} s, ${result}\n`);
}

function describeCommand(
  part: Program | Files,
  { seed, count, isDrawn }: { readonly seed: number; readonly count: number | undefined; readonly isDrawn: boolean },
): readonly string[] {
  if ('files' in part) return ['vitest', 'run', '--mode', 'nightly', ...part.files];
  return [
    'tsx',
    part.script,
    ...(part.args ?? []),
    ...(isDrawn ? ['--seed', String(seed)] : []),
    ...(count === undefined ? [] : ['--runs', String(count)]),
  ];
}

/** @returns the last line that it printed, which is its tally */
async function run([command = '', ...args]: readonly string[], seed: number, isDrawn: boolean) {
  const child = spawn('npx', [command, ...args], {
    cwd: REPO,
    env: { ...process.env, ...(isDrawn ? { FLOWDROP_TEST_SEED: String(seed) } : {}) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const closed = once(child, 'close');
  let last = '';
  for await (const line of createInterface({ input: child.stdout })) {
    console.log(line);
    if (line.trim() !== '') last = line.trim();
  }
  const [code] = (await closed) as [number | null];
  return { code, last };
}
