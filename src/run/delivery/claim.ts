/**
 * Which worker mails a report: one at a time. A store has no "replace if it is still what I read", so each taking over of
 * a receipt has a number, under which one object can be made only once. Invariant: of the workers that read the same
 * receipt one goes on.
 */
import { z } from 'zod';
import { encodeReceipt, LEASE_MS, parseReceipt, type Receipt } from '../../mail/receipt.ts';
import { claimKey } from '../../store/layout.ts';
import type { Ledger } from './mails.ts';

const claimSchema = z.object({ worker: z.string(), at: z.iso.datetime() });
type Claim = z.infer<typeof claimSchema>;

const JSON_TYPE = { contentType: 'application/json' };

/**
 * Before anything is computed, so that two workers do not both begin.
 * @param before the receipt that this worker read @param id what tells the report from others of the job
 * @returns whether it is this worker's @throws StoreFault
 */
export async function writeClaim(ledger: Ledger, before: Receipt | undefined, id: string): Promise<boolean> {
  const { store } = ledger.context;
  if (before === undefined) return await store.putIfAbsent(ledger.key, encodeReceipt(ledger.receipt), JSON_TYPE);
  const turn = await takeTurn(ledger, before.turn ?? 0, id);
  if (turn === undefined) return false;
  ledger.receipt = { ...ledger.receipt, turn };
  await store.put(ledger.key, { bytes: encodeReceipt(ledger.receipt) }, JSON_TYPE);
  return true;
}

async function takeTurn({ context, key, receipt }: Ledger, last: number, id: string): Promise<number | undefined> {
  const { store, clock } = context;
  const { job, date, worker } = receipt;
  const claim: Claim = { worker, at: new Date(clock.now()).toISOString() };
  for (let turn = last + 1; ; turn += 1) {
    const place = claimKey(job, date, id, turn);
    if (await store.putIfAbsent(place, Buffer.from(`${JSON.stringify(claim)}\n`), JSON_TYPE)) return turn;
    const now = await store.get(key);
    // It went on from what was read here: the next run sees how far it came.
    if (now !== undefined && (parseReceipt(now).turn ?? 0) >= turn) return undefined;
    const other = parseClaim(await store.get(place));
    const isAlive = other !== undefined && other.worker !== worker && clock.now() - Date.parse(other.at) < LEASE_MS;
    // One that died between its claim and its receipt is passed over.
    if (isAlive) return undefined;
  }
}

/** What cannot be read holds up nobody. */
function parseClaim(bytes: Uint8Array | undefined): Claim | undefined {
  try {
    return claimSchema.parse(JSON.parse(Buffer.from(bytes ?? []).toString('utf8')));
  } catch {
    return undefined;
  }
}
