/**
 * A store in front of a real one, in which chosen calls go wrong. Calls are counted from 1, so a test can put a fault at
 * each in turn; those that send nothing, `link` and `close`, are not. Invariant: a call without a fault is that of the store.
 */
import { type ListedObject, type Store, StoreFault } from '../../src/store/store.ts';

export interface StoreCall {
  readonly number: number;
  /** Method and key; of a copy, where from. */
  readonly text: string;
  readonly isWrite: boolean;
}

/** @param act what the store does @returns what the caller gets */
export type CallFault = (act: () => Promise<unknown>, call: StoreCall) => Promise<unknown>;
export type StorePlan = (call: StoreCall) => CallFault | undefined;

export class Died extends RangeError {}

/** Fails, and nothing was done. */
export const refuse: CallFault = (_, { text }) => Promise.reject(new StoreFault('ask', text, new Error('EIO')));
/** Is done, and fails all the same. */
export const loseAnswer: CallFault = async (act, call) => {
  await act();
  return await refuse(act, call);
};
/** Is done twice, as where something in between sends a request again; the answer is the second. */
export const repeat: CallFault = async (act) => {
  await act();
  return await act();
};
/** A lie: nothing is done, and this is what was found or written. */
export const answer =
  (value: unknown): CallFault =>
  async () =>
    value;
/** Is done when `gate` opens, and not at all if that throws. */
export const wait =
  (gate: () => Promise<void>): CallFault =>
  async (act) => {
    await gate();
    return await act();
  };

/** The fault at the call of this number, or at those that match, so many times. */
export function at(where: number | RegExp, fault: CallFault, times = Number.POSITIVE_INFINITY): StorePlan {
  let done = 0;
  return ({ number, text }) => {
    if (typeof where === 'number' ? number !== where : !where.test(text)) return undefined;
    done += 1;
    return done > times ? undefined : fault;
  };
}

/** The worker dies at the call of this number, or at the first that matches: it and all later ones do nothing and throw. */
export function dieAt(where: number | RegExp): StorePlan {
  const die: CallFault = (_, { text }) => Promise.reject(new Died(`died at ${text}`));
  const isDue = at(where, die);
  let isDead = false;
  return (call) => {
    isDead ||= isDue(call) !== undefined;
    return isDead ? die : undefined;
  };
}

const WRITES: readonly string[] = ['put', 'putIfAbsent', 'copy', 'copyWithTail', 'remove'];

/** @returns the store, with what was asked of it so far: the text of each call. Without a plan it only records */
export function faultStore(
  store: Store,
  plan: StorePlan = () => undefined,
): Store & { readonly calls: readonly string[] } {
  const calls: string[] = [];
  const meet = async (method: string, key: unknown, act: () => Promise<unknown>) => {
    const text = `${method} ${key}`;
    const call = { number: calls.push(text), text, isWrite: WRITES.includes(method) };
    const fault = plan(call);
    return await (fault ? fault(act, call) : act());
  };
  const faulty: unknown = new Proxy(store, {
    get(_, name: keyof Store | 'calls') {
      if (name === 'calls') return calls;
      const member: unknown = store[name];
      if (typeof member !== 'function') return member;
      const call = (given: readonly unknown[]) => Reflect.apply(member, store, given) as Promise<unknown>;
      if (name === 'link' || name === 'close') return (...given: readonly unknown[]) => call(given);
      if (name !== 'list') return (...given: readonly unknown[]) => meet(name, given[0], () => call(given));
      return async function* (...given: Parameters<Store['list']>) {
        yield* (await meet(name, given[0], () => collect(store.list(...given)))) as ListedObject[];
      };
    },
  });
  return faulty as ReturnType<typeof faultStore>;
}

/** A whole listing, which is one call. */
async function collect(listing: AsyncIterable<ListedObject>): Promise<readonly ListedObject[]> {
  const listed: ListedObject[] = [];
  for await (const object of listing) listed.push(object);
  return listed;
}
