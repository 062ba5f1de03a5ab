/**
 * `npm run release -- VERSION [--dry-run]`: sets one version everywhere, makes the package with its bill of materials
 * and checksums in out/release/, a commit and a tag. It pushes nothing. A failure before the commit leaves the clone
 * unchanged. It does not run the tests: release what CI has passed.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const REPO = fileURLToPath(new URL('..', import.meta.url));
const OUT = 'out/release';
/** A registry that does not answer must not hold up a release. */
const AUDIT_MS = 60_000;
const USAGE = 'usage: npm run release -- VERSION [--dry-run], VERSION such as 0.2.0';

type Edit = (text: string, version: string) => string;

/** Every file that has the version, and how it gets the next one. */
const EDITS: Readonly<Record<string, Edit>> = {
  'CHANGELOG.md': (text, version) => {
    const day = new Date().toISOString().slice(0, 10);
    return replaceOne(text, /^## Unreleased$/m, `## Unreleased\n\n## ${version} - ${day}`);
  },
  'package.json': (text, version) => replaceOne(text, /^ {2}"version": "[^"]+"/m, `  "version": "${version}"`),
  // Its own version, and that of the root among its packages.
  'npm-shrinkwrap.json': (text, version) =>
    replaceOne(
      replaceOne(text, /^ {2}"version": "[^"]+"/m, `  "version": "${version}"`),
      /(^ {4}"": \{\n {6}"name": "flowdrop",\n {6}"version": )"[^"]+"/m,
      `$1"${version}"`,
    ),
  'deploy/helm/flowdrop/Chart.yaml': (text, version) =>
    replaceOne(
      replaceOne(text, /^version: .*$/m, `version: ${version}`),
      /^appVersion: .*$/m,
      `appVersion: ${version}`,
    ),
  Dockerfile: (text, version) => replaceOne(text, /^ARG VERSION=.*$/m, `ARG VERSION=${version}`),
  'deploy/compose.yaml': setImage,
  'deploy/kubernetes/daemon/daemon.yaml': setImage,
  'deploy/kubernetes/cronjob/cronjob.yaml': setImage,
  'deploy/kubernetes/service/service.yaml': setImage,
};
const FILES = Object.keys(EDITS);

class Refusal extends Error {}

function setImage(text: string, version: string): string {
  return replaceOne(text, /^( *image: flowdrop:).*$/m, `$1${version}`);
}

function replaceOne(text: string, pattern: RegExp, by: string): string {
  if (!pattern.test(text)) throw new Refusal(`${pattern} is no longer in the file: update deploy/release.ts`);
  return text.replace(pattern, by);
}

/** @throws Refusal with what to do, before anything is changed */
function checkReady(version: string, current: string): void {
  if (!/^\d+\.\d+\.\d+$/.test(version)) throw new Refusal(`"${version}" is not a version\n${USAGE}`);
  if (!isNewer(version, current)) throw new Refusal(`${version} is not above ${current}, the version in package.json`);
  const branch = git('branch', '--show-current');
  if (branch !== 'main') throw new Refusal(`on branch ${branch || '(none)'}: switch to main to release`);
  const changed = git('status', '--porcelain');
  if (changed !== '') throw new Refusal(`the clone has changes; commit or stash them:\n${changed}`);
  if (git('tag', '--list', `v${version}`) !== '') throw new Refusal(`the tag v${version} exists already`);
  const notes = /^## Unreleased\n([\s\S]*?)(?=^## |(?![\s\S]))/m.exec(read('CHANGELOG.md'))?.[1] ?? '';
  if (!/^- /m.test(notes)) throw new Refusal('CHANGELOG.md has nothing under "## Unreleased"');
}

function isNewer(version: string, than: string): boolean {
  const [a, b] = [version, than].map((text) => text.split('.').map(Number));
  const at = [0, 1, 2].find((index) => a?.[index] !== b?.[index]) ?? 0;
  return (a?.[at] ?? 0) > (b?.[at] ?? 0);
}

/** Warnings that do not stop the release. */
function listWarnings(): readonly string[] {
  const base = /^ARG BASE=(\S+)$/m.exec(read('Dockerfile'))?.[1] ?? '';
  const unpinned = `the image's base is not pinned: ${base} has no digest, so later builds of the same commit may differ.
  The command above ARG BASE in the Dockerfile prints the digest to append.`;
  return [...(base.includes('@sha256:') ? [] : [unpinned]), ...listAdvisories()];
}

/** Advisories for the packages installed with flowdrop, or a note that the registry has no audit. */
function listAdvisories(): readonly string[] {
  const words = ['audit', '--omit', 'dev', '--json', '--package-lock-only', '--fetch-retries', '0'];
  // It also exits with 1 if there are advisories.
  const { stdout } = spawnSync('npm', words, { cwd: REPO, encoding: 'utf8', timeout: AUDIT_MS });
  let answer: { readonly vulnerabilities?: Readonly<Record<string, { readonly severity: string }>> } = {};
  try {
    answer = JSON.parse(stdout);
  } catch {
    // No answer, as below.
  }
  if (answer.vulnerabilities === undefined)
    return ['the registry did not answer npm audit: check for advisories elsewhere'];
  return Object.entries(answer.vulnerabilities).map(
    ([name, { severity }]) => `${name} has an advisory (${severity}): run npm audit`,
  );
}

/** The package, its bill of materials and their checksums. */
function makeFiles(version: string): readonly string[] {
  rmSync(join(REPO, OUT), { recursive: true, force: true });
  mkdirSync(join(REPO, OUT), { recursive: true });
  run('npm', ['pack', '--pack-destination', OUT]);
  // By the lockfile: the packages of every platform, whatever is installed here.
  const words = ['sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application', '--omit', 'dev'];
  const bill = JSON.parse(run('npm', [...words, '--package-lock-only'])) as {
    metadata: { component: { name: string } };
  };
  // npm names it by the folder of the clone.
  bill.metadata.component.name = 'flowdrop';
  writeFileSync(join(REPO, OUT, `flowdrop-${version}.cdx.json`), `${JSON.stringify(bill, null, 2)}\n`);
  const names = readdirSync(join(REPO, OUT)).sort();
  const sums = names.map(
    (name) =>
      `${createHash('sha256')
        .update(readFileSync(join(REPO, OUT, name)))
        .digest('hex')}  ${name}\n`,
  );
  writeFileSync(join(REPO, OUT, 'SHA256SUMS'), sums.join(''));
  return [...names, 'SHA256SUMS'];
}

function release(version: string): void {
  let files: readonly string[];
  try {
    for (const [file, edit] of Object.entries(EDITS)) writeFileSync(join(REPO, file), edit(read(file), version));
    files = makeFiles(version);
    git('commit', '--quiet', '--message', `Release ${version}`, '--', ...FILES);
  } catch (error) {
    // The clone was clean, so this reverts only our own edits.
    git('checkout', '--quiet', 'HEAD', '--', ...FILES);
    throw error;
  }
  git('tag', '--annotate', `v${version}`, '--message', `flowdrop ${version}`);
  console.log(`released ${version}: commit ${git('rev-parse', '--short', 'HEAD')}, tag v${version}`);
  for (const name of files) console.log(`  ${OUT}/${name}`);
  console.log(`next: git push origin main v${version}`);
}

function plan(version: string, current: string): void {
  console.log(`would release ${version} (now ${current}); nothing was changed`);
  for (const [file, edit] of Object.entries(EDITS)) {
    const before = new Set(read(file).split('\n'));
    const added = edit(read(file), version)
      .split('\n')
      .filter((line) => line.trim() !== '' && !before.has(line));
    for (const line of added) console.log(`  ${file}: ${line.trim()}`);
  }
  for (const name of [`flowdrop-${version}.tgz`, `flowdrop-${version}.cdx.json`, 'SHA256SUMS'])
    console.log(`  ${OUT}/${name}`);
  console.log(`  git commit "Release ${version}", git tag v${version}; no push`);
}

function read(file: string): string {
  return readFileSync(join(REPO, file), 'utf8');
}

function git(...words: readonly string[]): string {
  return run('git', words).trim();
}

function run(command: string, words: readonly string[]): string {
  return execFileSync(command, words, { cwd: REPO, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
}

try {
  const { values, positionals } = parseArgs({ options: { 'dry-run': { type: 'boolean' } }, allowPositionals: true });
  const [version = '', ...more] = positionals;
  if (version === '' || more.length > 0) throw new Refusal(USAGE);
  const { version: current } = JSON.parse(read('package.json')) as { readonly version: string };
  checkReady(version, current);
  for (const warning of listWarnings()) console.error(`warning: ${warning}`);
  if (values['dry-run']) plan(version, current);
  else release(version);
} catch (error) {
  console.error(`release: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = error instanceof Refusal || error instanceof TypeError ? 2 : 1;
}
