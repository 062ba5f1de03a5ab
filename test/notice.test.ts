/** What is installed beside flowdrop: the lockfile that holds it to what was looked at, and the licences that come with it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { REPO } from './support/flowdrop.ts';
import { buildNotice, licenseOf, PERMISSIVE, readLicenseFile, readLock } from './support/notice.ts';

/** Words of licences that ask for more than that their text is kept. */
const DEMANDING =
  /Mozilla Public License|Creative Commons|GNU (?:Lesser |Affero )?General Public|SIL Open Font|Bitstream/;

/**
 * Builds for platforms other than linux x64 with glibc, of which the registry at hand gave neither package nor hash: npm
 * installs them unchecked. The list may only become shorter.
 */
const UNHASHED = [
  '@biomejs/cli-android-arm64',
  '@biomejs/cli-android-x64',
  '@biomejs/cli-darwin-arm64',
  '@biomejs/cli-darwin-x64',
  '@biomejs/cli-linux-arm64-musl',
  '@biomejs/cli-linux-x64-musl',
  '@biomejs/cli-win32-arm64',
  '@biomejs/cli-win32-x64',
  '@chdb/lib-darwin-arm64',
  '@chdb/lib-darwin-x64',
  '@chdb/lib-linux-arm64-gnu',
  '@duckdb/node-bindings-darwin-arm64',
  '@duckdb/node-bindings-darwin-x64',
  '@duckdb/node-bindings-linux-arm64',
  '@duckdb/node-bindings-linux-arm64-musl',
  '@duckdb/node-bindings-win32-arm64',
  '@duckdb/node-bindings-win32-x64',
];

describe('the lockfile', () => {
  it('has a hash of every package, but of builds for other platforms that the registry did not serve when it was written', () => {
    const missing = readLock().filter(({ integrity }) => !/^sha512-[\w+/]{86}==$/.test(integrity ?? ''));
    expect(missing.map(({ name }) => name).sort()).toEqual(UNHASHED);
  });

  it('has install scripts of no package but those that package.json refuses', () => {
    const { allowScripts } = JSON.parse(readFileSync(join(REPO, 'package.json'), 'utf8')) as {
      readonly allowScripts: Readonly<Record<string, boolean>>;
    };
    const scripted = readLock().filter(({ hasInstallScript }) => hasInstallScript);
    const refused = Object.entries(allowScripts).filter(([, isAllowed]) => !isAllowed);
    expect(refused.map(([name]) => name).sort()).toEqual(Object.keys(allowScripts).sort());
    expect(scripted.map(({ name }) => name).filter((name) => !(name in allowScripts))).toEqual([]);
  });

  it('names no place to download from', () => {
    expect(readLock().filter(({ resolved }) => resolved !== undefined)).toEqual([]);
  });
});

describe('NOTICE', () => {
  // `-u` writes it again.
  it('lists every package of an installation with its licence', async () => {
    await expect(buildNotice()).toMatchFileSnapshot('../NOTICE');
  });

  it('says what the licences ask for that are more than permissive', () => {
    const unknown = readLock()
      .filter(({ dev }) => !dev)
      .filter((locked) => !PERMISSIVE.has(licenseOf(locked)))
      .filter((locked) => !['MPL-2.0', 'CC-BY-4.0', 'Bitstream Vera'].includes(licenseOf(locked)));
    expect(unknown.map(({ name }) => name)).toEqual([]);
  });

  it('takes no package for permissive whose own licence file is of another kind', () => {
    const texts = readLock()
      .filter(({ dev }) => !dev)
      .map((locked) => ({ license: licenseOf(locked), text: readLicenseFile(locked)?.slice(0, 2_000), ...locked }))
      .filter(({ text }) => text !== undefined);
    expect(texts.length).toBeGreaterThan(300);
    const demanding = texts.filter(({ text }) => DEMANDING.test(text ?? ''));
    expect(demanding.map(({ name }) => name).sort()).toEqual(['@resvg/resvg-js', 'caniuse-lite', 'dejavu-fonts-ttf']);
  });
});
