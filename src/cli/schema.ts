/** `flowdrop schema`: the JSON Schema of job files, made from the shape that checks them. */
import { z } from 'zod';
import { jobSchema } from '../job/shape.ts';
import type { ActionResult } from './command.ts';
import type { CliContext } from './context.ts';

export async function schema({ terminal }: Pick<CliContext, 'terminal'>): ActionResult {
  const document = z.toJSONSchema(jobSchema, { io: 'input', unrepresentable: 'any' });
  terminal.out(`${JSON.stringify({ ...document, title: 'flowdrop job file' }, undefined, 2)}\n`);
  return undefined;
}
