/**
 * Doctor's checks of a store: every permission that a run needs, on objects of its own below `_flowdrop/doctor/`.
 * Invariant: every object written is removed again, or listed as left behind.
 */
import { randomUUID } from 'node:crypto';
import { Fault } from '../../core/errors.ts';
import { DOCTOR_PREFIX } from '../../store/object-key.ts';
import { createUnfit, type Store } from '../../store/store.ts';
import { type Finding, fail, ok, tryCheck } from './finding.ts';

interface StoreTrial {
  /** Name in the table of results. */
  readonly name: string;
  readonly store: Store;
  /**
   * Starts and aborts a multipart upload, then uploads the object in parts; `false` if the store has no multipart
   * uploads.
   */
  tryUpload(key: string): Promise<boolean>;
}

/** Costs about fifteen small requests. */
export async function checkStore({ name, store, tryUpload }: StoreTrial): Promise<readonly Finding[]> {
  const root = `${DOCTOR_PREFIX}${randomUUID()}`;
  // Named like drops, because only drops get the storage class.
  const keys = { plain: `${root}-plain.parquet`, once: `${root}-once.json`, parts: `${root}-parts.parquet` };
  const bytes = Buffer.from(`flowdrop doctor ${root}`);
  const right = (verb: string, act: () => Promise<string>) => tryCheck(`${name}: ${verb}`, act);

  const listed = await right('list', async () => {
    for await (const _ of store.list(DOCTOR_PREFIX)) break;
    return `${store.url} can be listed`;
  });
  const put = await right('put', async () => {
    await store.put(keys.plain, { bytes });
    return 'an object was written';
  });
  // If both fail, the other checks would only repeat the failure, each after a timeout.
  if ([...listed, ...put].every(({ status }) => status === 'fail')) return [...listed, ...put];
  const rest = [
    await right('get', async () => {
      const read = await store.get(keys.plain);
      if (read !== undefined && Buffer.compare(read, bytes) === 0) return 'it was read back, byte for byte';
      if (put.some(({ status }) => status === 'fail')) return 'missing and forbidden objects are distinguished';
      throw new Fault('STORE_UNFIT', 'the object that was read differs from the one written', {
        hint: 'Something between here and the store alters objects.',
      });
    }),
    await right('conditional put', async () => {
      if (!(await store.putIfAbsent(keys.once, bytes))) throw createUnfit('a new object was refused as if it existed');
      if (await store.putIfAbsent(keys.once, Buffer.from('second')))
        throw createUnfit('a write-once object was overwritten');
      return 'a second write to the same object was refused';
    }),
    await right('multipart', async () =>
      (await tryUpload(keys.parts)) ? 'one upload was aborted, one completed' : 'not needed: objects are files',
    ),
  ];
  return [...listed, ...put, ...rest.flat(), ...(await removeAll(name, store, Object.values(keys)))];
}

async function removeAll(name: string, store: Store, keys: readonly string[]): Promise<readonly Finding[]> {
  const check = `${name}: delete`;
  const failures = (
    await Promise.all(keys.map((key) => tryCheck(check, async () => store.remove(key).then(() => []))))
  ).flat();
  const left: string[] = [];
  for (const key of keys) {
    // Without permission to look, the failure above already explains the problem.
    const found = await store.head(key).catch(() => undefined);
    if (found) left.push(key);
  }
  const [first] = failures;
  if (first === undefined && left.length === 0) return [ok(check, 'all test objects are removed')];
  const remains = left.length === 0 ? '' : ` Then remove the leftovers: ${left.join(', ')}.`;
  const seen = first?.seen ?? `still there after deletion: ${left.join(', ')}`;
  return [fail(check, seen, `${first?.next ?? 'Check whether the store keeps deleted objects.'}${remains}`)];
}
