/**
 * `npm run house`: the structure of `src/` in figures: lines, files, names, importers, the longest functions, and how many
 * files one opens to follow three things through the program. Read from the source text, whose layout the formatter keeps:
 * a top-level function begins and ends in the first column, a method in the third.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SRC = fileURLToPath(new URL('../src', import.meta.url));
const LONGEST = 10;
const SMALL_LINES = 40;
/** A module may have this share of all lines; the service, a product of its own, more. */
const MODULE_SHARE = 1 / 8;

/** Where something enters the program, and the files that do something to it on its way, as few as tell the way. */
const WAYS: Readonly<Record<string, { readonly from: readonly string[]; readonly through: readonly string[] }>> = {
  'a window, from job file to manifest': {
    from: ['job/parse.ts', 'export/run-job.ts'],
    through: [
      ...['export/export.ts', 'export/trades/trade-dates.ts', 'plan/statement.ts', 'plan/counts.ts'],
      ...['export/export-dates.ts', 'export/trades/fetched-date.ts', 'export/trades/fetch.ts', 'plan/pack.ts'],
      ...['stage/intake.ts', 'export/trades/probe.ts', 'export/seal-rows.ts'],
      ...['seal/write-parquet.ts', 'ledger/publish.ts', 'ledger/manifest.ts'],
    ],
  },
  'a number, from Parquet to the HTML of the mail': {
    from: ['deliver/dated-report.ts'],
    through: [
      ...['report/drop-source.ts', 'report/query/sums.ts', 'report/numbers.ts', 'report/key-numbers.ts'],
      ...['report/text/mail-view.ts', 'report/template.ts'],
    ],
  },
  'a request, from socket to rows': {
    from: ['main.ts'],
    through: [
      ...['cli/serve.ts', 'service/http/listener.ts', 'service/historical/historical.ts', 'service/access/keys.ts'],
      ...['service/access/gate.ts', 'service/historical/query-runner.ts', 'guard/guard.ts', 'engine/worker-pool.ts'],
    ],
  },
};

interface Import {
  readonly from: string;
  readonly to: string;
  readonly isType: boolean;
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .sort();
const texts = new Map(files.map((file) => [file, readFileSync(join(SRC, file), 'utf8')]));
const imports = files.flatMap(listImports);
const lines = (file: string) => (texts.get(file) ?? '').split('\n').length - 1;
const total = sum(files.map(lines));
const comments = sum(files.map(countComments));

console.log(`src: ${total} lines in ${files.length} files, ${percent(comments / total)} of them comments\n`);
printModules();
printNames();
printImporters();
printFunctions();
for (const [what, { from, through }] of Object.entries(WAYS)) printWay(what, from, through);

function printModules(): void {
  const modules = new Map<string, string[]>();
  for (const file of files) {
    const module = file.includes('/') ? (file.split('/')[0] ?? '') : file;
    modules.set(module, [...(modules.get(module) ?? []), file]);
  }
  const rows = [...modules]
    .map(([module, own]) => ({ module, files: own.length, lines: sum(own.map(lines)) }))
    .sort((a, b) => b.lines - a.lines);
  console.log('module           files   lines   share');
  for (const { module, files: count, lines: own } of rows) {
    const note = own / total > MODULE_SHARE && module !== 'service' ? '  more than an eighth' : '';
    console.log(`${module.padEnd(15)} ${pad(count, 6)} ${pad(own, 7)} ${percent(own / total).padStart(7)}${note}`);
  }
  console.log();
}

function printNames(): void {
  const byName = groupBy(files, (file) => basename(file));
  const shared = [...byName].filter(([, all]) => all.length > 1);
  console.log(`file names shared: ${shared.length} names of ${sum(shared.map(([, all]) => all.length))} files`);
  for (const [name, all] of shared) console.log(`  ${name}: ${all.map((file) => dirname(file)).join(', ')}`);
  const folders = new Set(files.map((file) => dirname(file)).filter((folder) => folder !== '.'));
  const twice = [...groupBy([...folders], (folder) => basename(folder))].filter(([, all]) => all.length > 1);
  console.log(`folder names shared: ${twice.map(([name, all]) => `${name} (${all.join(', ')})`).join('; ') || 'none'}`);
  const types = files.flatMap((file) =>
    [...(texts.get(file) ?? '').matchAll(/^export (?:interface|type|class|abstract class) (\w+)/gm)].map((match) => ({
      file,
      name: match[1] ?? '',
    })),
  );
  const declared = [...groupBy(types, ({ name }) => name)].filter(([, all]) => all.length > 1);
  console.log(`exported types that share a name: ${declared.length} of ${types.length}`);
  for (const [name, all] of declared) console.log(`  ${name}: ${all.map(({ file }) => file).join(', ')}`);
  const spreads = sum([...texts.values()].map((text) => [...text.matchAll(/\.\.\.\([^()]*\? \{\} : \{/g)].length));
  const conditional = sum([...texts.values()].map((text) => [...text.matchAll(/\? \{[^{}]*\} : \{\}\)/g)].length));
  console.log(`conditional spreads: ${spreads + conditional}`);
  const count = (pattern: RegExp) => sum([...texts.values()].map((text) => [...text.matchAll(pattern)].length));
  const bags = count(/^(?:export )?(?:interface|type) \w*(?:Deps|Context|Options|Input|Parts|Facts)\b/gm);
  console.log(`types named Deps, Context, Options, Input, Parts or Facts: ${bags}`);
  console.log(`interfaces: ${count(/^(?:export )?interface /gm)}, of a schema: ${count(/z\.infer</g)} types`);
  console.log(`catch blocks: ${count(/\} catch\b/g)}, .catch calls: ${count(/\.catch\(/g)}\n`);
}

function printImporters(): void {
  const importers = groupBy(imports, ({ to }) => to);
  const single = files.filter((file) => new Set((importers.get(file) ?? []).map(({ from }) => from)).size === 1);
  const small = single.filter((file) => lines(file) < SMALL_LINES);
  console.log(`files with one importer: ${single.length}, of fewer than ${SMALL_LINES} lines: ${small.length}`);
  for (const file of small) console.log(`  ${file} (${lines(file)}) for ${(importers.get(file) ?? [])[0]?.from ?? ''}`);
  const most = [...importers].sort(([, a], [, b]) => b.length - a.length).slice(0, LONGEST);
  console.log(`most imported: ${most.map(([file, all]) => `${file} ${all.length}`).join(', ')}\n`);
}

function printFunctions(): void {
  const found = files.flatMap((file) => listFunctions(file)).sort((a, b) => b.lines - a.lines);
  console.log(`the ${LONGEST} longest functions`);
  for (const { file, name, lines: own } of found.slice(0, LONGEST)) console.log(`  ${pad(own, 4)}  ${file} ${name}`);
  console.log();
}

/** The shortest ways by imports of values, each from what is on the way already to the next file. */
function printWay(what: string, from: readonly string[], through: readonly string[]): void {
  const way = new Set(from);
  for (const file of through) for (const step of findPath(way, file)) way.add(step);
  console.log(`${what}: at least ${way.size} files\n  ${[...way].join('\n  ')}\n`);
}

function findPath(starts: ReadonlySet<string>, end: string): readonly string[] {
  const before = new Map<string, string | undefined>([...starts].map((start) => [start, undefined]));
  for (const file of before.keys()) {
    for (const { from: importer, to, isType } of imports) {
      if (importer === file && !isType && !before.has(to)) before.set(to, file);
    }
  }
  if (!before.has(end)) throw new RangeError(`${end} is not reached from ${[...starts].join(', ')}`);
  const steps: string[] = [];
  for (let at: string | undefined = end; at !== undefined; at = before.get(at)) steps.unshift(at);
  return steps;
}

function listImports(file: string): readonly Import[] {
  const text = texts.get(file) ?? '';
  return [...text.matchAll(/(?:(import type )[^;]*?)?(?:from|import\()\s*'(\.[^']+)'/g)].map((match) => ({
    from: file,
    to: join(dirname(file), match[2] ?? ''),
    isType: match[1] !== undefined,
  }));
}

function listFunctions(file: string): readonly { file: string; name: string; lines: number }[] {
  const found: { file: string; name: string; lines: number }[] = [];
  let isInClass = false;
  let open: { readonly name: string; readonly end: string; readonly from: number } | undefined;
  for (const [index, line] of (texts.get(file) ?? '').split('\n').entries()) {
    if (/^(export )?(abstract )?class /.test(line)) isInClass = true;
    else if (isInClass && line === '}') isInClass = false;
    const top = /^(?:export )?(?:async )?function\*? (\w+)/.exec(line)?.[1];
    const method = /^ {2}(?:static |get |private )?(?:async )?\*?(#?\w+)(?:<.*)?\(.*/.exec(line)?.[1];
    if (open === undefined && top !== undefined) open = { name: top, end: '}', from: index };
    else if (open === undefined && isInClass && method !== undefined) open = { name: method, end: '  }', from: index };
    if (open !== undefined && line === open.end) {
      found.push({ file, name: open.name, lines: index - open.from + 1 });
      open = undefined;
    }
  }
  return found;
}

function countComments(file: string): number {
  let isInside = false;
  let count = 0;
  for (const line of (texts.get(file) ?? '').split('\n').map((one) => one.trim())) {
    if (line.startsWith('/*')) isInside = true;
    if (isInside || line.startsWith('//')) count += 1;
    if (line.endsWith('*/')) isInside = false;
  }
  return count;
}

function groupBy<T>(all: readonly T[], keyOf: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const one of all) groups.set(keyOf(one), [...(groups.get(keyOf(one)) ?? []), one]);
  return groups;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0);
}

function pad(value: number, width: number): string {
  return String(value).padStart(width);
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)}%`;
}
