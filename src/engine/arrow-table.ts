/** Converts Arrow IPC bytes of the engine to typed columns. apache-arrow loads on first use: only reports need it. */
import type { Table } from 'apache-arrow';

/** @param bytes an Arrow IPC stream; an empty result has no bytes and gives a table without columns */
export async function readTable(bytes: Uint8Array): Promise<Table> {
  const arrow = await import('apache-arrow');
  return bytes.length === 0 ? new arrow.Table() : arrow.tableFromIPC(bytes);
}
