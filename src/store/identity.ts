/**
 * The identity of a store: `_flowdrop/store.json`, with an id that is written once, at the first write to the store. An
 * unmounted disk leaves its empty mount point, and a bucket can be recreated under its name: the id distinguishes them
 * from the original store. The state folder records the id of each place, so that a run that starts while the store is
 * away does not take the empty place for a new store. An id is recorded once the store was seen to refuse a second write
 * of one object, on which sealing rests. Invariant: reading commands write no identity.
 *
 * A store that was opened keeps its identity: nothing is written to another store that has taken its place, and a missing
 * object there does not count as missing. Both end in `STORE_CHANGED`. The number of checks depends on their cost. In a
 * directory, whose disk may be unmounted at any moment, it checks before and after every write, with a small local read; in
 * S3, where a bucket does not change its identity within a minute, at most once a minute.
 */
import { createHash, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { readJsonFile, tryParseJson, writeWholeFile } from '../core/atomic-file.ts';
import type { Clock } from '../core/clock.ts';
import { Fault, isFault } from '../core/errors.ts';
import { STORE_IDENTITY_KEY } from './object-key.ts';
import { createUnfit, type Store } from './store.ts';

/** The only format that this flowdrop reads and writes; it stands for the layout of the whole store (`ledger/layout.ts`). */
const FORMAT = 2;

/** How long a check remains valid. */
const TRUST_MS: Readonly<Record<StorePlace['kind'], number>> = { directory: 0, s3: 60_000 };

const identitySchema = z.looseObject({ format: z.number(), id: z.string().min(1) });
const knownSchema = z.object({ store: z.string(), id: z.string().min(1) });

/**
 * The purpose for which a store is opened.
 * - `look`: to read, or to test rights; the store may have no identity
 * - `run`: to seal and mail; a store without an identity gets one, unless this place is known to have had another
 * - `new`: as `run`, for an operator who has moved or emptied the store: the store that is there now is accepted
 */
export type StoreUse = 'look' | 'run' | 'new';

/** The location of a store, and this machine's record of it. */
export interface StorePlace {
  /** Identifies this place: two services may have buckets with the same name. Stored only as a hash. */
  readonly address: string;
  readonly kind: 'directory' | 's3';
  readonly stateDir: string;
}

/**
 * Identifies the store, and creates or records its identity as `use` allows. Wraps it with checks; if `look` leaves it
 * without an identity, it is returned unchanged.
 * @throws Fault `STORE_CHANGED`, `STORE_FORMAT`, `STORE_UNFIT`, StoreFault
 */
export async function holdStore(store: Store, place: StorePlace, use: StoreUse, clock: Clock): Promise<Store> {
  const { kind, address, stateDir } = place;
  const name = createHash('sha256').update(address).digest('hex').slice(0, 16);
  const path = join(stateDir, 'stores', `${name}.json`);
  const known = (await readJsonFile(path, knownSchema))?.id;
  const found = await readStoreId(store);
  const isKept = found.id !== undefined && (known === undefined || found.id === known);
  if (!isKept && use !== 'new' && (known !== undefined || found.text !== undefined)) {
    throw createStoreChange(store, kind, known, found);
  }
  if (use === 'look') return found.id === undefined ? store : holdAt(store, kind, found.id, clock);
  const id = found.id ?? (await makeStoreId(store, place, found));
  if (id !== known) {
    await assertWriteOnce(store, id);
    await writeWholeFile(path, `${JSON.stringify({ store: store.url, id })}\n`);
  }
  return holdAt(store, kind, id, clock);
}

/** Costs one request. A store that overwrites the identity gets the same one. @throws Fault `STORE_UNFIT`, StoreFault */
async function assertWriteOnce(store: Store, id: string): Promise<void> {
  // Other bytes than those there: if the answer is lost, the store compares them to find out whose the object is.
  const bytes = formatIdentity(id, { trial: randomUUID() });
  if (await store.putIfAbsent(STORE_IDENTITY_KEY, bytes))
    throw createUnfit(`${store.url}: a write-once object was overwritten`);
}

function isStoreChange(error: unknown): boolean {
  return isFault(error) && error.code === 'STORE_CHANGED';
}

/**
 * Does what may fail alone, and then goes on with what `onFault` gives: unless the run was stopped, or its store replaced,
 * after which nothing else can succeed. An error that is no Fault is a mistake of the program, and is thrown too.
 */
export async function attempt<T>(action: () => Promise<T>, onFault: (fault: Fault) => T): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (!isFault(error) || error.kind === 'interrupted' || isStoreChange(error)) throw error;
    return onFault(error);
  }
}

/** The id, and the text of the file; `undefined` if there is none. @throws Fault `STORE_FORMAT`, StoreFault */
export async function readStoreId(store: Store) {
  const bytes = await store.get(STORE_IDENTITY_KEY);
  const text = bytes && Buffer.from(bytes).toString('utf8');
  const { data } = identitySchema.safeParse(tryParseJson(text ?? ''));
  if (data && data.format !== FORMAT) {
    throw new Fault(
      'STORE_FORMAT',
      `${store.url}/${STORE_IDENTITY_KEY} has format ${data.format}, this flowdrop knows ${FORMAT} only`,
      { hint: 'Another version of flowdrop has written to this store: install that version here.' },
    );
  }
  return { id: data?.id, text };
}

type StoreId = Awaited<ReturnType<typeof readStoreId>>;

async function makeStoreId(store: Store, { kind }: StorePlace, found: StoreId): Promise<string> {
  const id = randomUUID();
  const bytes = formatIdentity(id);
  if (found.text !== undefined) await store.put(STORE_IDENTITY_KEY, { bytes });
  else if (!(await store.putIfAbsent(STORE_IDENTITY_KEY, bytes))) {
    // Another worker wrote its id at the same moment: that id counts.
    const theirs = await readStoreId(store);
    if (theirs.id === undefined) throw createStoreChange(store, kind, undefined, theirs);
    return theirs.id;
  }
  return id;
}

function formatIdentity(id: string, more: object = {}): Buffer {
  return Buffer.from(`${JSON.stringify({ format: FORMAT, id, ...more })}\n`);
}

function createStoreChange(store: Store, kind: StorePlace['kind'], known: string | undefined, { id, text }: StoreId) {
  const seen = id === undefined ? (text === undefined ? 'there is none' : 'it cannot be read') : `it is ${id}`;
  const wanted = known === undefined ? 'the id of a store' : `the id ${known}`;
  const where =
    kind === 'directory'
      ? `Check whether its disk is mounted there (\`findmnt --target ${store.url}\`)`
      : 'Check whether bucket, prefix and AWS_ENDPOINT_URL_S3 are those of the store';
  return new Fault(
    'STORE_CHANGED',
    `${store.url} is not the same store as before: ${STORE_IDENTITY_KEY} should have ${wanted}, but ${seen}; nothing was written there`,
    {
      hint: `${where}, then start the same command again. If the store was moved, emptied or replaced on purpose: \`flowdrop run JOB --new-store\`.`,
    },
  );
}

function holdAt(store: Store, kind: StorePlace['kind'], id: string, clock: Clock): Store {
  let seenMs = clock.now();
  const assertSame = async () => {
    // If the clock was set, in either direction, check again.
    if (Math.abs(clock.now() - seenMs) < TRUST_MS[kind]) return;
    const found = await readStoreId(store);
    if (found.id !== id) throw createStoreChange(store, kind, id, found);
    seenMs = clock.now();
  };
  /** A missing disk explains more than the file that could not be written to it, or the folder that could not be listed. */
  const explain = async (error: unknown): Promise<never> => {
    const change: unknown = await assertSame().catch((found: unknown) => found);
    throw isStoreChange(change) ? change : error;
  };
  const read = async <T>(reading: Promise<T>): Promise<T> => {
    const found = await reading;
    if (found === undefined || found === false) await assertSame();
    return found;
  };
  const write = async <T>(act: () => Promise<T>): Promise<T> => {
    await assertSame();
    const done = await act().catch(explain);
    await assertSame();
    return done;
  };
  return {
    url: store.url,
    get: (key) => read(store.get(key)),
    head: (key) => read(store.head(key)),
    download: (...asked) => read(store.download(...asked)),
    put: (...asked) => write(() => store.put(...asked)),
    putIfAbsent: (...asked) => write(() => store.putIfAbsent(...asked)),
    copy: (...asked) => write(() => store.copy(...asked)),
    remove: (key) => write(() => store.remove(key)),
    async *list(...asked) {
      try {
        yield* store.list(...asked);
      } catch (error) {
        await explain(error);
      }
      // Only at the end: objects may have disappeared during the listing.
      await assertSame();
    },
    async listFolders(prefix) {
      const folders = await store.listFolders(prefix).catch(explain);
      await assertSame();
      return folders;
    },
    link: (...asked) => store.link(...asked),
    close: () => store.close(),
  };
}
