/**
 * Shapes of the separate historical SQL entry point, as in the specification: no `meta`, and its own bodies for HTTP
 * 400. Other failures are as at the main entry point (`historicalFailureSchema`).
 */
import { z } from 'zod';
import { apiKeySchema, dataSchema, requestSchema } from './historical.ts';

/**
 * What a caller sends. The service reads leniently and answers a missing member with one of the three documented 400
 * bodies, in the two shapes below.
 */
export const portalRequestSchema = z
  .object({
    api_key: apiKeySchema.describe('Key of the customer portal; begins with cus_ or apikey_.'),
    sql: requestSchema.shape.sql,
  })
  .meta({ id: 'PortalRequest' });

export const portalSuccessSchema = z
  .looseObject({ status: z.literal('SUCCESS'), data: dataSchema })
  .describe('The rows. Rows beyond the row limit are dropped without notice.')
  .meta({ id: 'PortalSuccess' });

/** For a missing key, or SQL that is not a SELECT or that the guardrails refuse. */
export const portalRefusalSchema = z
  .strictObject({ status: z.literal('ERROR'), errorMsg: z.string().describe('For people.') })
  .describe('The key is missing, or the SQL is refused.')
  .meta({ id: 'PortalRefusal' });

/** For a missing `sql`: its text has another name. */
export const portalSqlMissingSchema = z
  .strictObject({ status: z.literal('ERROR'), message: z.string().describe('For people.') })
  .describe('The body has no sql.')
  .meta({ id: 'PortalSqlMissing' });
