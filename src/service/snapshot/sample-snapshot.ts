/** The snapshot of the examples in the interface description: that of one sample trade. */
import { chainRowSchema } from '../../api-contract/chain.ts';
import { SNAPSHOT_REFRESH_SECONDS } from '../../api-contract/snapshot.ts';
import { SAMPLE_CALL } from '../historical/sample-trades.ts';
import type { Snapshot } from './snapshot.ts';
import { NO_FLOW } from './snapshot-sql.ts';

const { symbol, date, price, time, size, oi, premium, underlying_price, underlying_type } = SAMPLE_CALL;
const AS_OF_MS = Date.parse('2025-03-03T14:46:30Z');
const CONTRACT = { ...SAMPLE_CALL, last: price, last_time: time, volume: size, open_interest: oi };

export const SAMPLE_SNAPSHOT: Snapshot = {
  symbol,
  date,
  source: 'trades',
  chainAsOfMs: AS_OF_MS,
  flowAsOfMs: AS_OF_MS,
  nextMs: AS_OF_MS + SNAPSHOT_REFRESH_SECONDS * 1_000,
  spot: underlying_price,
  contracts: [chainRowSchema.strip().parse(CONTRACT)],
  flow: {
    ...NO_FLOW,
    trades: 1,
    call_trades: 1,
    bullish_trades: 1,
    contracts: size,
    call_contracts: size,
    total_premium: premium,
    call_premium: premium,
    bullish_premium: premium,
    underlying_type,
  },
};
