/**
 * Doctor's checks of this machine and of a store. Each check is one line of the table or more, and throws only if the
 * operator stops it. Invariant: what a check writes is removed again, or listed as left behind.
 */
import { randomUUID } from 'node:crypto';
import { access, constants, mkdtemp, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describeError, Fault, isFault } from '../../core/errors.ts';
import { assertEnoughFiles, planEngineMemory } from '../../core/machine.ts';
import { formatBytes } from '../../core/units.ts';
import type { Engine } from '../../engine/engine.ts';
import { renderPicture } from '../../report/draw/picture.ts';
import type { reportSettings } from '../../settings/settings.ts';
import { DOCTOR_PREFIX } from '../../store/object-key.ts';
import { createUnfit, type Store } from '../../store/store.ts';

/** One line of the table. */
export interface Finding {
  readonly check: string;
  /** `warn`: it works, but needs attention; `fail`: a run would fail. */
  readonly status: 'ok' | 'warn' | 'fail';
  /** What was seen, without secrets. */
  readonly seen: string;
  /** What to do; only if the status is not `ok`. */
  readonly next?: string | null | undefined;
}

export type Findings = readonly Finding[];

const judge = (status: Finding['status']) => (check: string, seen: string, next?: string) => {
  return { check, status, seen, next };
};
export const [ok, warn, fail] = [judge('ok'), judge('warn'), judge('fail')];

/** The finding that an error is. @throws Fault of kind `interrupted` */
function blame(check: string, error: unknown): Finding {
  if (isFault(error) && error.kind === 'interrupted') throw error;
  return fail(check, describeError(error), isFault(error) ? error.hint : undefined);
}

/**
 * Turns any error of `act` into a finding. A text that it returns is what was seen where all is well.
 * @throws Fault of kind `interrupted`
 */
export async function tryCheck(check: string, act: () => Promise<Findings | string>): Promise<Findings> {
  try {
    const found = await act();
    return typeof found === 'string' ? [ok(check, found)] : found;
  } catch (error) {
    return [blame(check, error)];
  }
}

export function checkSettings({ set, unknown, faults }: ReturnType<typeof reportSettings>): Findings {
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

export async function checkSecrecy(path: string): Promise<Findings | string> {
  const mode = (await stat(path).catch(() => undefined))?.mode;
  if (mode === undefined) return [];
  const shown = (mode & 0o777).toString(8);
  if ((mode & 0o077) === 0) return `${path} is readable by its owner only (mode ${shown})`;
  return [
    warn('settings file', `other users may read ${path} (mode ${shown}), and the secrets in it`, `chmod 600 ${path}`),
  ];
}

/** Whether runs can write to the folder, or can make it. */
export async function checkStateDirectory(path: string): Promise<Findings> {
  return await tryCheck('state directory', async () => {
    await access(`${await findExisting(path)}/.`, constants.W_OK | constants.X_OK).catch((error: unknown) => {
      const hint = 'Give this user the right to write in FLOWDROP_STATE_DIR, or name another folder.';
      throw new Fault('STATE_UNUSABLE', describeError(error), { hint });
    });
    return `${path} can be written`;
  });
}

/** The nearest folder at or above a path that exists: a run creates the others. */
export async function findExisting(path: string): Promise<string> {
  for (let place = path; ; place = dirname(place)) {
    if (place === dirname(place) || (await stat(place).catch(() => undefined)) !== undefined) return place;
  }
}

export interface WrittenPlace {
  readonly what: string;
  readonly path: string;
  readonly bytes: number;
}

/** One finding a disk: what is free there, and what a night needs. @param isGuess whether a need is only a guess */
export async function checkRoom(places: readonly WrittenPlace[], isGuess: boolean): Promise<Findings> {
  const disks = new Map<number, WrittenPlace[]>();
  for (const place of places) {
    const { dev } = await stat(await findExisting(place.path));
    disks.set(dev, [...(disks.get(dev) ?? []), place]);
  }
  const findings: Finding[] = [];
  for (const shared of disks.values()) {
    const { bavail, bsize } = await statfs(await findExisting(shared[0]?.path ?? '.'));
    const [free, needed] = [bavail * bsize, shared.reduce((sum, { bytes }) => sum + bytes, 0)];
    const names = [...new Set(shared.map(({ what, path }) => `${what} ${path}`))].join(', ');
    const need = `a night needs about ${formatBytes(needed)}${isGuess ? ', if its sessions are full' : ''}`;
    const seen = `${formatBytes(free)} free for ${names}; ${need}`;
    const next = `Free ${formatBytes(needed - free)} on this disk, or use another one: \`drop.to\` of the job, FLOWDROP_STATE_DIR, FLOWDROP_OUTBOX_DIR.`;
    // A guess may be ten times too high: small sessions need little.
    const isWarning = isGuess && free >= needed / 10;
    findings.push(free >= needed ? ok('disk', seen) : (isWarning ? warn : fail)('disk', seen, next));
  }
  return findings;
}

/** Twice the memory in which a million rows were exported and reported; measured, see docs/operations.md. */
const LITTLE_MEMORY_BYTES = 1_000_000_000;

/** Memory and open files that the system allows this process. */
export async function checkLimits(memoryBytes: number, fileLimit: number | undefined): Promise<Findings> {
  const memory = await tryCheck('memory', async () => {
    const engineBytes = planEngineMemory(memoryBytes);
    const seen = `${formatBytes(memoryBytes)} for this process, ${formatBytes(engineBytes)} of it for the engine`;
    const next = `A session of millions of rows may need more: give it ${formatBytes(LITTLE_MEMORY_BYTES)}.`;
    return memoryBytes >= LITTLE_MEMORY_BYTES ? seen : [warn('memory', seen, next)];
  });
  const files = await tryCheck('open files', async () => {
    assertEnoughFiles(fileLimit);
    return fileLimit === undefined ? 'their limit is unknown' : `${fileLimit} files may be open at once`;
  });
  return [...memory, ...files];
}

/** Draws a chart with text and one without: if no font is found, both pictures are equal. */
export async function checkDrawing(): Promise<string> {
  const draw = (text: string) =>
    renderPicture({ data: { values: [{}] }, mark: { type: 'text', text }, width: 80, height: 40 }, 80);
  const [blank, word] = [await draw(' '), await draw('NVDA')];
  if (Buffer.compare(blank, word) !== 0) return `charts are drawn, with text (${word.length} bytes)`;
  throw new Fault('FONT_MISSING', 'charts are drawn without their text: the font was not found', {
    hint: 'Install flowdrop again with its dependencies (npm ci): the fonts are in the package dejavu-fonts-ttf.',
  });
}

export async function checkEngine(engine: Engine): Promise<string> {
  try {
    const [row] = await engine.rows<{ version: string }>('SELECT version() AS version');
    return `ClickHouse ${row?.version ?? '(unknown)'} is loaded and answers`;
  } finally {
    await engine.close();
  }
}

/** Tries every permission that a run needs, on objects below `_flowdrop/doctor/`. Costs about fifteen small requests. */
export async function checkStore(store: Store): Promise<Findings> {
  const root = `${DOCTOR_PREFIX}${randomUUID()}`;
  // Named like drops, because only drops get the storage class.
  const keys = { plain: `${root}-plain.parquet`, once: `${root}-once.json`, copy: `${root}-copy.parquet` };
  const bytes = Buffer.from(`flowdrop doctor ${root}`);
  const tryRight = (right: string, act: () => Promise<string>) => tryCheck(`store: ${right}`, act);
  const listed = await tryRight('list', async () => {
    for await (const _ of store.list(DOCTOR_PREFIX)) break;
    return `${store.url} can be listed`;
  });
  const put = await tryRight('put', async () => {
    // A file, as every drop is: S3 takes it without a signature of its bytes.
    const folder = await mkdtemp(join(tmpdir(), 'flowdrop-doctor-'));
    try {
      const path = join(folder, 'plain');
      await writeFile(path, bytes);
      await store.put(keys.plain, { path });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    return 'an object was written';
  });
  const hasPut = put.every(({ status }) => status === 'ok');
  // If both fail, the other checks would only repeat the failure, each after a timeout.
  if (!hasPut && listed.every(({ status }) => status === 'fail')) return [...listed, ...put];
  const got = await tryRight('get', async () => {
    const read = await store.get(keys.plain);
    if (read !== undefined && Buffer.compare(read, bytes) === 0) return 'it was read back, byte for byte';
    if (!hasPut) return 'missing and forbidden objects are distinguished';
    const hint = 'Something between here and the store alters objects.';
    throw new Fault('STORE_UNFIT', 'the object that was read differs from the one written', { hint });
  });
  const once = await tryRight('conditional put', async () => {
    if (!(await store.putIfAbsent(keys.once, bytes))) throw createUnfit('a new object was refused as if it existed');
    if (await store.putIfAbsent(keys.once, Buffer.from('second')))
      throw createUnfit('a write-once object was overwritten');
    return 'a second write to the same object was refused';
  });
  const copied = await tryRight('copy', async () => {
    await store.copy(keys.plain, keys.copy);
    return 'an object was copied';
  });
  const removed = await tryRight('delete', async () => {
    await Promise.all(Object.values(keys).map((key) => store.remove(key)));
    return 'all test objects are removed';
  });
  const left = `Then remove the leftovers: ${Object.values(keys).join(', ')}.`;
  const deleted = removed.map((one) => (one.status === 'ok' ? one : { ...one, next: `${one.next ?? ''} ${left}` }));
  return [...listed, ...put, ...got, ...once, ...copied, ...deleted];
}
