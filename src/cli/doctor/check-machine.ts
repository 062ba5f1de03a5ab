/**
 * Doctor's checks of this machine: settings, the state directory, memory, open files, the engine, drawing and mail.
 */
import { randomUUID } from 'node:crypto';
import { rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hasErrorCode, makeFolder, writeWholeFile } from '../../core/atomic-file.ts';
import { Fault } from '../../core/errors.ts';
import { NEEDED_FILES, planEngineMemory, RAISE_FILES_HINT } from '../../core/machine.ts';
import { formatBytes } from '../../core/units.ts';
import type { Engine } from '../../engine/engine.ts';
import type { Mailer } from '../../mail/mailer.ts';
import { renderPicture } from '../../report/draw/picture.ts';
import type { SettingReport } from '../../settings/setting-list.ts';
import { blame, type Finding, fail, ok, tryCheck, warn } from './finding.ts';

const SMTP_HINT = 'Set FLOWDROP_SMTP_URL or FLOWDROP_SMTP_URL_FILE.';

/** Twice the memory in which a million rows were exported and reported; measured, see docs/operations.md. */
const LITTLE_MEMORY_BYTES = 1_000_000_000;

/** Writes and removes a file as runs do; also removes the folders that it had to create for it. */
export async function checkStateDirectory(path: string): Promise<readonly Finding[]> {
  const written = await tryCheck('state directory', async () => {
    const made = await makeFolder(path);
    const file = join(path, `doctor-${randomUUID()}`);
    try {
      await writeWholeFile(file, 'flowdrop doctor\n');
    } finally {
      await rm(file, { force: true });
    }
    if (made !== undefined) await removeEmptyFolders(path, dirname(made));
    return `${path} can be written`;
  });
  return written.map((finding) =>
    finding.status === 'fail' && finding.next === undefined
      ? { ...finding, next: 'Give this user the right to write in FLOWDROP_STATE_DIR, or name another folder.' }
      : finding,
  );
}

/** Removes `path` and its parents up to, but not including, `end`, as long as they are empty. */
export async function removeEmptyFolders(path: string, end: string): Promise<void> {
  for (let folder = path; folder !== end && folder !== dirname(folder); folder = dirname(folder)) {
    try {
      await rmdir(folder);
    } catch (error) {
      // Another process has written into the folder in the meantime: keep it.
      if (!hasErrorCode(error, 'ENOENT')) return;
    }
  }
}

/** Memory and open files that the system allows this process. */
export function checkLimits(memoryBytes: number, fileLimit: number | undefined): readonly Finding[] {
  const files =
    fileLimit === undefined ? 'the limit of open files is unknown' : `${fileLimit} files may be open at once`;
  const isFew = fileLimit !== undefined && fileLimit < NEEDED_FILES;
  return [
    describeMemory(memoryBytes),
    isFew ? fail('open files', `${files}, ${NEEDED_FILES} are needed`, RAISE_FILES_HINT) : ok('open files', files),
  ];
}

function describeMemory(memoryBytes: number): Finding {
  try {
    const engineBytes = planEngineMemory(memoryBytes);
    const seen = `${formatBytes(memoryBytes)} for this process, ${formatBytes(engineBytes)} of it for the engine`;
    if (memoryBytes >= LITTLE_MEMORY_BYTES) return ok('memory', seen);
    return warn(
      'memory',
      seen,
      `A session of millions of rows may need more: give it ${formatBytes(LITTLE_MEMORY_BYTES)}.`,
    );
  } catch (error) {
    return blame('memory', error);
  }
}

/** @param open loads the native engine */
export async function checkEngine(open: () => Promise<Engine>): Promise<readonly Finding[]> {
  return await tryCheck('engine', async () => {
    const engine = await open();
    try {
      const [row] = await engine.rows<{ version: string }>('SELECT version() AS version');
      return `ClickHouse ${row?.version ?? '(unknown)'} is loaded and answers`;
    } finally {
      await engine.close();
    }
  });
}

/** Draws a chart with text and one without: if no font is found, both pictures are equal. */
export async function checkDrawing(): Promise<readonly Finding[]> {
  return await tryCheck('drawing', async () => {
    const draw = (text: string) =>
      renderPicture({ data: { values: [{}] }, mark: { type: 'text', text }, width: 80, height: 40 }, 80);
    const [blank, word] = [await draw(' '), await draw('NVDA')];
    if (Buffer.compare(blank, word) !== 0) return `charts are drawn, with text (${word.length} bytes)`;
    throw new Fault('FONT_MISSING', 'charts are drawn without their text: the font was not found', {
      hint: 'Install flowdrop again with its dependencies (npm ci): the fonts are in the package dejavu-fonts-ttf.',
    });
  });
}

/**
 * Connects, encrypts and logs in as a delivery would, but sends nothing.
 * @param countUnreached addresses of the jobs that get nothing, because no SMTP server is set
 */
export async function checkMail(
  open: () => Promise<Mailer>,
  countUnreached: () => number,
): Promise<readonly Finding[]> {
  return await tryCheck('mail', async () => {
    const mailer = await open();
    try {
      const seen = await mailer.verify();
      const count = countUnreached();
      if (count === 0) return seen;
      const who = `${count} ${count === 1 ? 'address' : 'addresses'} in the job files`;
      return [warn('mail', `${seen}; the ${who} will receive nothing`, SMTP_HINT)];
    } finally {
      await mailer.close();
    }
  });
}

export function checkSettings({ set, unknown, faults }: SettingReport): readonly Finding[] {
  const none = 'none is set in the environment or in .env of this directory';
  return [
    set.length > 0
      ? ok('settings', `set: ${set.join(', ')}`)
      : warn('settings', none, '`flowdrop init` writes a settings file; run flowdrop in its folder.'),
    ...unknown.map(({ name, meant }) => {
      const next = meant ? `Did you mean ${meant}?` : 'Unset it, or look up its name in the README.';
      return warn('settings', `${name} is set, but is not a setting`, next);
    }),
    ...faults.map((fault) => blame('settings', fault)),
  ];
}

/** @param mode of the settings file; `undefined` if there is none */
export function checkSecrecy(path: string, mode: number | undefined): readonly Finding[] {
  if (mode === undefined) return [];
  const shown = (mode & 0o777).toString(8);
  if ((mode & 0o077) === 0) return [ok('settings file', `${path} is readable by its owner only (mode ${shown})`)];
  const seen = `other users may read ${path} (mode ${shown}), and the secrets in it`;
  return [warn('settings file', seen, `chmod 600 ${path}`)];
}
