/**
 * Shapes of the separate historical SQL entry point, as the specification gives them: no `meta`, and bodies of its own for
 * HTTP 400. Other failures are written as at the main entry point (`historicalFailureSchema`).
 */
import { z } from 'zod';
import { apiKeySchema, dataSchema, requestSchema } from './historical.ts';

/** What a caller sends. The service reads leniently and answers what is missing with one of the three bodies below. */
export const portalRequestSchema = z.object({
  api_key: apiKeySchema.describe('Key of the customer portal; begins with cus_ or apikey_.'),
  sql: requestSchema.shape.sql,
});

export const portalSuccessSchema = z
  .looseObject({ status: z.literal('SUCCESS'), data: dataSchema })
  .describe('The rows. Rows beyond the row limit are dropped without notice.');

/** A missing key, SQL that is not a SELECT or is refused by the guardrails. */
export const portalRefusalSchema = z
  .strictObject({ status: z.literal('ERROR'), errorMsg: z.string().describe('For people.') })
  .describe('The key is missing, or the SQL is refused.');

/** A missing `sql`: its text has another name. */
export const portalSqlMissingSchema = z
  .strictObject({ status: z.literal('ERROR'), message: z.string().describe('For people.') })
  .describe('The body has no sql.');
