/**
 * Shapes of the session endpoint, which exchanges a key for a cookie. The specification leaves the session mechanism
 * open.
 */
import { z } from 'zod';
import { apiKeySchema } from './historical.ts';

export const loginRequestSchema = z.object({
  api_key: apiKeySchema.describe('Any valid key; begins with cus_ or apikey_.'),
});

export const loginSuccessSchema = z
  .strictObject({
    status: z.literal('SUCCESS'),
    expires_at: z.iso.datetime().describe('When the session ends, UTC.'),
  })
  .describe('The session is open; its cookie is set.');

export const logoutSuccessSchema = z.strictObject({ status: z.literal('SUCCESS') }).describe('The cookie is removed.');
