/** Schemas that the interface description refers to; the same schemas validate. A table of data; no logic. */
import { z } from 'zod';
import {
  chainFailureSchema,
  chainRequestSchema,
  chainRowSchema,
  chainSuccessSchema,
} from '../../api-contract/chain.ts';
import {
  historicalFailureSchema,
  requestSchema,
  resultRowSchema,
  successSchema,
} from '../../api-contract/historical.ts';
import { loginRequestSchema, loginSuccessSchema, logoutSuccessSchema } from '../../api-contract/login.ts';
import { marketStructureFailureSchema, marketStructureSuccessSchema } from '../../api-contract/market-structure.ts';
import {
  portalRefusalSchema,
  portalRequestSchema,
  portalSqlMissingSchema,
  portalSuccessSchema,
} from '../../api-contract/portal.ts';
import { tradeRecordSchema } from '../../api-contract/trade-record.ts';

export const SCHEMAS = {
  TradeRecord: tradeRecordSchema,
  ResultRow: resultRowSchema,
  HistoricalRequest: requestSchema,
  HistoricalSuccess: successSchema,
  HistoricalFailure: historicalFailureSchema,
  PortalRequest: portalRequestSchema,
  PortalSuccess: portalSuccessSchema,
  PortalRefusal: portalRefusalSchema,
  PortalSqlMissing: portalSqlMissingSchema,
  ChainRequest: chainRequestSchema,
  ChainRow: chainRowSchema,
  ChainSuccess: chainSuccessSchema,
  ChainFailure: chainFailureSchema,
  MarketStructureSuccess: marketStructureSuccessSchema,
  MarketStructureFailure: marketStructureFailureSchema,
  LoginRequest: loginRequestSchema,
  LoginSuccess: loginSuccessSchema,
  LogoutSuccess: logoutSuccessSchema,
  Health: z
    .looseObject({ status: z.string().describe('ok when requests are answered.') })
    .describe('State of the service; further members are for operators.'),
  Metrics: z.string().describe('Prometheus text exposition format.'),
  Description: z.looseObject({ openapi: z.string().describe('Version of OpenAPI.') }).describe('This document.'),
} as const satisfies Readonly<Record<string, z.ZodType>>;

export type SchemaName = keyof typeof SCHEMAS;
