/**
 * The program serving the real SPX chain, as `serve --chain` reads it from the exchange's page: the published figures over
 * HTTP. The same figures without HTTP, and all shapes, are in `market-structure.test.ts` and `chain-file.test.ts`.
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chainSuccessSchema } from '../../src/api-contract/chain.ts';
import { marketStructureSuccessSchema } from '../../src/api-contract/market-structure.ts';
import { CHAIN_PATH, MARKET_STRUCTURE_PATH } from '../../src/api-contract/published-limits.ts';
import { hasSpxPage, SPX_PAGE, SPX_REFERENCE } from '../support/chain-page.ts';
import { KEY, startService, type TestService } from '../support/flowdrop.ts';
import { postJson } from './running-service.ts';

const CONTRACTS = 21_038;
const { date } = SPX_REFERENCE;

// Skipped only where the page is not beside the repository, which `support/chain-page.ts` says aloud.
describe.skipIf(!hasSpxPage)('a service of the real SPX page', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService(['--chain', SPX_PAGE, '--as-of', `${date}T23:00:00Z`, '--concurrency', '1']);
  });
  afterAll(() => service?.stop());

  async function getStructure(query = '') {
    const address = `${service.url}${MARKET_STRUCTURE_PATH.replace(':symbol', 'SPX')}${query}`;
    const reply = await fetch(address, { headers: { authorization: `Bearer ${KEY}` } });
    expect(reply.status).toBe(200);
    return marketStructureSuccessSchema.parse(await reply.json());
  }

  test.each(['', `?date=${date}`])(
    'GET market-structure%s has the published exposure and zero gamma',
    async (query) => {
      const { data, meta } = await getStructure(query);
      const { structure } = data;
      expect(Math.abs((structure.net_gex ?? 0) - SPX_REFERENCE.netGex)).toBeLessThan(0.01e9);
      expect(Math.abs((structure.call_gex ?? 0) - SPX_REFERENCE.callGex)).toBeLessThan(0.01e9);
      expect(Math.abs((structure.put_gex ?? 0) - SPX_REFERENCE.putGex)).toBeLessThan(0.01e9);
      expect(Math.abs((structure.zero_gamma ?? 0) - SPX_REFERENCE.zeroGamma)).toBeLessThan(1);
      expect(structure).toMatchObject({ source: 'file', spot: SPX_REFERENCE.spot, contracts: CONTRACTS });
      expect(meta.effective_date).toBe(date);
    },
  );

  test('POST option-chain has every contract of the page', async () => {
    const reply = await fetch(`${service.url}${CHAIN_PATH}`, postJson({ api_key: KEY, symbol: 'SPX' }));
    expect(reply.status).toBe(200);
    const { data, meta } = chainSuccessSchema.parse(await reply.json());
    expect(data).toHaveLength(CONTRACTS);
    expect(new Set(data.map(({ option_symbol }) => option_symbol)).size).toBe(CONTRACTS);
    expect(meta).toMatchObject({ symbol: 'SPX', date, source: 'file', contracts: CONTRACTS });
  });
});
