/**
 * The NOTICE file as the lockfile and the installed packages make it: which packages an installation without development
 * dependencies has, under which licences, and what of those licences has to be said. Lists every platform's packages, whatever
 * platform it is made on.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { REPO } from './flowdrop.ts';

interface LockEntry {
  readonly version: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly dev?: boolean;
  readonly hasInstallScript?: boolean;
}

export interface LockedPackage extends LockEntry {
  /** Place below the root, `node_modules/...`. */
  readonly place: string;
  readonly name: string;
}

const MODULES = 'node_modules/';

/** All packages of the lockfile, those of other platforms included. */
export function readLock(): readonly LockedPackage[] {
  const { packages } = JSON.parse(readFileSync(join(REPO, 'npm-shrinkwrap.json'), 'utf8')) as {
    packages: Readonly<Record<string, LockEntry>>;
  };
  return Object.entries(packages)
    .filter(([place]) => place !== '')
    .map(([place, entry]) => ({ ...entry, place, name: place.slice(place.lastIndexOf(MODULES) + MODULES.length) }));
}

/** Licences that ask for no more than that their text stays with the package. */
export const PERMISSIVE: ReadonlySet<string> = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'CC0-1.0',
  'ISC',
  'MIT',
  'MIT-0',
  'Python-2.0',
  'Unlicense',
]);

/** Licences as their packages name them in other words, read from their licence files. */
const SPELLED: Readonly<Record<string, string>> = {
  'png-js': 'MIT',
  slick: 'MIT',
  'dejavu-fonts-ttf': 'Bitstream Vera',
};

/** What is said of packages whose licence asks for more, by licence. */
const DEMANDS: Readonly<Record<string, string>> = {
  'MPL-2.0': `Mozilla Public License 2.0. Used unchanged, as their makers built them. Their source code is at
https://github.com/thx/resvg-js and, for the library inside, https://github.com/linebender/resvg; the licence is at
https://www.mozilla.org/MPL/2.0/ and in node_modules/@resvg/resvg-js/LICENSE.`,
  'CC-BY-4.0': `Creative Commons Attribution 4.0 International. The data of caniuse.com by Alexis Deveria and contributors, unchanged;
https://creativecommons.org/licenses/by/4.0/. Read by the compiler of the mails' templates.`,
  'Bitstream Vera': `The DejaVu fonts, which charts and attached PDFs are drawn with. Unchanged; parts of them are embedded in those
documents. Their licence, which must be in all copies:`,
};

/** Notices that the packages' own licences (Apache 2.0, section 4d) ask to pass on. */
const NOTICE_FILES = ['apache-arrow/NOTICE.txt'] as const;
const FONT_LICENSE = 'dejavu-fonts-ttf/LICENSE';
const METRICS_FILE = 'pdfkit/js/data/Helvetica.afm';

export function licenseOf({ name, license }: LockedPackage): string {
  return SPELLED[name] ?? license ?? 'unknown';
}

/** The text of NOTICE. */
export function buildNotice(): string {
  const installed = readLock().filter(({ dev }) => !dev);
  const byLicense = new Map<string, Set<string>>();
  for (const locked of installed) {
    const license = licenseOf(locked);
    byLicense.set(license, (byLicense.get(license) ?? new Set()).add(`${locked.name} ${locked.version}`));
  }
  const list = (names: Iterable<string>) => [...names].sort().map((name) => `  ${name}`);
  const asked = [...byLicense].filter(([license]) => !PERMISSIVE.has(license)).sort();
  const rest = [...byLicense].filter(([license]) => PERMISSIVE.has(license)).sort();
  return [
    'flowdrop',
    'Licensed under the Apache License 2.0, see LICENSE.',
    '',
    'An installation without development dependencies holds the packages below. Each has its licence in its own folder of',
    'node_modules. This file is made from npm-shrinkwrap.json: `npx vitest run test/notice.test.ts -u` writes it again.',
    '',
    ...asked.flatMap(([license, names]) => [
      heading(license),
      DEMANDS[license] ?? '',
      '',
      ...list(names),
      '',
      ...(license === 'Bitstream Vera' ? [readText(FONT_LICENSE), ''] : []),
    ]),
    heading('Font metrics in pdfkit'),
    'pdfkit holds the metrics (AFM) of the 14 standard PDF fonts:',
    ...readText(METRICS_FILE)
      .split('\n')
      .filter((line) => line.includes('Copyright'))
      .map((line) => `  ${line.replace('Comment ', '')}`),
    '',
    ...NOTICE_FILES.flatMap((file) => [heading(`Notice of ${file.split('/')[0]}`), readText(file), '']),
    ...rest.flatMap(([license, names]) => [heading(license), ...list(names), '']),
  ].join('\n');
}

function heading(text: string): string {
  return `---- ${text} ----`;
}

function readText(file: string): string {
  return readFileSync(join(REPO, MODULES, file), 'utf8')
    .replaceAll('\r', '')
    .trimEnd();
}

/** The beginning of a package's licence file; `undefined` where it is not installed here, or has none. */
export function readLicenseFile({ place }: LockedPackage): string | undefined {
  const names = ['LICENSE', 'LICENSE.md', 'LICENSE.txt', 'LICENCE', 'license', 'license.md', 'LICENSE-MIT'];
  const found = names.map((name) => join(REPO, place, name)).find((path) => existsSync(path));
  return found && readFileSync(found, 'utf8');
}
