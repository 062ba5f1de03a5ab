/**
 * `npm run nightly -- mutations [--seed S] [--runs N]`: puts faults into a copy of `src`, one at a time, and runs the tests
 * that can reach the faulty module until one fails. Folders and kinds of fault take turns. Each result is appended to
 * `MUTATIONS.md` at once, and a run of the same seed skips those that are there. The exit code is 1 if a fault survived. Who
 * finds that a fault changes nothing writes `without effect` and why.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { parseAst } from 'vitest/node';
import { REPO } from '../support/flowdrop.ts';
import { createRandom, pick } from '../support/random.ts';

const RESULTS = join(REPO, 'test/nightly/MUTATIONS.md');
/** A test run that takes longer hangs: the fault is noticed. */
const PATIENCE_MS = 1_800_000;

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [member: string]: unknown;
}

interface Fault {
  readonly file: string;
  readonly line: number;
  readonly kind: string;
  readonly was: string;
  /** The whole file with the fault in it. */
  readonly source: string;
}

const SWAPS: Readonly<Record<string, readonly [operator: string, kind: string]>> = {
  '<': ['<=', 'a bound off by one'],
  '<=': ['<', 'a bound off by one'],
  '>': ['>=', 'a bound off by one'],
  '>=': ['>', 'a bound off by one'],
  '===': ['!==', 'a comparison turned round'],
  '!==': ['===', 'a comparison turned round'],
  '&&': ['||', 'and for or'],
  '||': ['&&', 'and for or'],
};

/** How many test files run before the others of their kind, those that are nearest to the fault. */
const NEAREST = 6;

/** Files that a file imports, by whatever way, with the number of imports between them. */
const reached = new Map<string, ReadonlyMap<string, number>>();

const { values } = parseArgs({ options: { seed: { type: 'string' }, runs: { type: 'string' } } });
const seed = Number(values.seed ?? Date.now() % 1_000_000);
const runs = Number(values.runs ?? 40);

const folder = mkdtempSync(join(tmpdir(), 'flowdrop-mutations-'));
const tree = join(folder, 'tree');
const git = (...words: readonly string[]) => execFileSync('git', words, { cwd: REPO, stdio: 'pipe' });
git('worktree', 'add', '--detach', tree);
symlinkSync(join(REPO, 'node_modules'), join(tree, 'node_modules'));
try {
  const known = existsSync(RESULTS) ? readFileSync(RESULTS, 'utf8') : '';
  const tally = { caught: 0, survived: 0 };
  for (const fault of drawFaults()) {
    if (tally.caught + tally.survived >= runs) break;
    const name = `seed ${seed}, ${fault.file}:${fault.line}, ${fault.kind}, \`${fault.was}\``;
    const before = known.split('\n').find((line) => line.startsWith(`- ${name}: `));
    const result = before?.slice(name.length + 4) ?? (await tryFault(fault));
    if (result === undefined || result.startsWith('without effect')) continue;
    tally[result.startsWith('caught') ? 'caught' : 'survived'] += 1;
    if (!existsSync(RESULTS)) writeFileSync(RESULTS, '# Faults that were put into `src`\n\n');
    if (before === undefined) appendFileSync(RESULTS, `- ${name}: ${result}\n`);
    console.log(`${name}: ${result}`);
  }
  if (tally.survived > 0) process.exitCode = 1;
  console.log(`${tally.caught} caught, ${tally.survived} survived`);
} finally {
  git('worktree', 'remove', '--force', tree);
  rmSync(folder, { recursive: true, force: true });
}

/** Without end: each time another folder and another kind. */
function* drawFaults(): Generator<Fault> {
  const random = createRandom(seed);
  const draw = <T>(from: readonly T[]) => pick(random, from);
  const files = listFiles('src').filter((file) => file.endsWith('.ts'));
  const folders = [...new Set(files.map((file) => file.split('/')[1] ?? ''))].sort(() => random() - 0.5);
  let lastKind = '';
  for (;;) {
    for (const name of folders) {
      const own = files.filter((file) => file.split('/')[1] === name);
      const faults = listFaults(draw(own)).filter(({ kind }) => kind !== lastKind);
      if (faults.length === 0) continue;
      const kind = draw([...new Set(faults.map((fault) => fault.kind))]);
      const fault = draw(faults.filter((one) => one.kind === kind));
      lastKind = fault.kind;
      yield fault;
    }
  }
}

/** All faults of one file. */
function listFaults(file: string): readonly Fault[] {
  const text = readFileSync(join(REPO, file), 'utf8');
  const faults: Fault[] = [];
  const add = (kind: string, from: number, to: number, replacement: string) => {
    const line = text.slice(0, from).split('\n').length;
    const was = text.slice(from, to).replaceAll(/\s+/g, ' ').trim().slice(0, 60);
    faults.push({ file, line, kind, was, source: text.slice(0, from) + replacement + text.slice(to) });
  };
  walk(parseAst(text, { lang: 'ts' }) as unknown as Node, (node) => {
    const part = (member: string) => node[member] as Node; // By the type of the node.
    if (node.type === 'IfStatement') {
      const { start, end } = part('test');
      add('a condition negated', start, end, `!(${text.slice(start, end)})`);
    } else if (node.type === 'BinaryExpression' || node.type === 'LogicalExpression') {
      const operator = String(node['operator']);
      const [swapped, kind] = SWAPS[operator] ?? [];
      const [from, to] = [part('left').end, part('right').start];
      const between = text.slice(from, to);
      if (swapped && kind)
        add(
          kind,
          from,
          to,
          between.replace(operator, () => swapped),
        );
    } else if (node.type === 'ExpressionStatement') {
      const expression = part('expression');
      const isAwaited = expression.type === 'AwaitExpression';
      const called = isAwaited ? (expression['argument'] as Node) : expression;
      if (called.type !== 'CallExpression') return;
      add('a step left out', node.start, node.end, ';');
      if (isAwaited) add('an await dropped', expression.start, called.start, 'void ');
    } else if (node.type === 'ThrowStatement') {
      add('an error not thrown', node.start, node.end, ';');
    } else if (node.type === 'VariableDeclarator' && (node['init'] as Node | null)?.type === 'Literal') {
      const { start, end } = part('init');
      const isLimit =
        /^[A-Z_]+$/.test(String(part('id')['name'])) &&
        Number.isFinite(Number(text.slice(start, end).replaceAll('_', '')));
      if (isLimit) add('a limit ignored', start, end, '1e15');
    }
  });
  return faults;
}

function walk(node: Node, visit: (node: Node) => void): void {
  visit(node);
  for (const member of Object.values(node)) {
    for (const child of Array.isArray(member) ? member : [member]) {
      if (typeof (child as Node | null)?.type === 'string') walk(child as Node, visit);
    }
  }
}

/** @returns `undefined` if the compiler refuses it */
async function tryFault(fault: Fault): Promise<string | undefined> {
  const path = join(tree, fault.file);
  const whole = readFileSync(path, 'utf8');
  const compile = async (source: string) => {
    writeFileSync(path, source);
    return await run(['tsc', '-p', 'tsconfig.json', '--incremental', '--tsBuildInfoFile', 'node.tsbuildinfo']);
  };
  try {
    if ((await compile(fault.source)).code !== 0) return undefined;
    const left = [...listTests(fault.file)];
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const { mode, files } = next;
      if (files.length === 0) continue;
      const { code, output } = await run(['vitest', 'run', '--mode', mode, '--bail', '1', ...files]);
      if (code === 0) continue;
      if (code === 'late') return `caught: tests hang (${mode})`;
      const failed = /FAIL\s+(.*)/.exec(output)?.[1] ?? 'no test by name';
      const [file = ''] = failed.split(' ');
      // A test that fails without the fault as well, on a busy machine for instance, has not caught it.
      await compile(whole);
      if ((await run(['vitest', 'run', '--mode', mode, file])).code === 0) return `caught by ${failed}`;
      await compile(fault.source);
      left.unshift({ mode, files: files.filter((one) => one !== file) });
    }
    return 'SURVIVED';
  } finally {
    writeFileSync(path, whole);
  }
}

async function run(
  args: readonly string[],
): Promise<{ readonly code: number | null | 'late'; readonly output: string }> {
  const env = { ...process.env, NO_COLOR: '1' };
  const child = spawn('npx', args, { cwd: tree, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    // With all that it started.
    process.kill(-(child.pid ?? 0), 'SIGKILL');
  }, PATIENCE_MS);
  const [code] = (await once(child, 'close')) as [number | null];
  clearTimeout(timer);
  return { code: isLate ? 'late' : code, output };
}

/**
 * The test files that can reach a module, in the order in which they are tried: those of `npm test` that import it, the
 * nearest first, those that run commands, and the slow ones likewise.
 */
function listTests(file: string): readonly { readonly mode: 'test' | 'rest'; readonly files: readonly string[] }[] {
  const tests = listFiles('test').filter((name) => /(?<!\.nightly)\.test\.ts$/.test(name));
  const folder = dirname(file).replace(/^src/, 'test');
  const distance = (test: string) => (reach(test).get(file) ?? 0) - (test.startsWith(folder) ? 100 : 0);
  const importing = tests.filter((test) => reach(test).has(file)).sort((a, b) => distance(a) - distance(b));
  const commanding = tests.filter((test) => !reach(test).has(file) && reach(test).has('test/support/flowdrop.ts'));
  const isSlow = (name: string) => /\.(slow|external)\.test\.ts$/.test(name);
  const quick = importing.filter((name) => !isSlow(name));
  const slow = importing.filter(isSlow);
  return [
    { mode: 'test' as const, files: quick.slice(0, NEAREST) },
    { mode: 'test' as const, files: quick.slice(NEAREST) },
    { mode: 'test' as const, files: commanding.filter((name) => !isSlow(name)) },
    { mode: 'rest' as const, files: slow.slice(0, NEAREST) },
    { mode: 'rest' as const, files: slow.slice(NEAREST) },
    { mode: 'rest' as const, files: commanding.filter(isSlow) },
  ];
}

function reach(file: string): ReadonlyMap<string, number> {
  const before = reached.get(file);
  if (before) return before;
  const found = new Map<string, number>();
  const waiting = [file];
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const text = readFileSync(join(REPO, next), 'utf8');
    for (const [, from = ''] of text.matchAll(/(?:from|import\()\s*'(\.[^']+\.ts)'/g)) {
      const name = resolve('/', dirname(next), from).slice(1);
      if (found.has(name) || !existsSync(join(REPO, name))) continue;
      found.set(name, (found.get(next) ?? 0) + 1);
      waiting.push(name);
    }
  }
  reached.set(file, found);
  return found;
}

function listFiles(under: string): readonly string[] {
  const entries = readdirSync(join(REPO, under), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(REPO.length))
    .sort();
}
