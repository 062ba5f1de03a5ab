/** `flowdrop schema`: prints the JSON Schema of job files, generated from the schema that validates them. */
import { z } from 'zod';
import { jobSchema } from '../job/shape.ts';
import type { ActionResult } from './command.ts';
import type { CliContext } from './context.ts';

export async function schema({ terminal }: Pick<CliContext, 'terminal'>): ActionResult {
  const document = z.toJSONSchema(jobSchema, {
    io: 'input',
    unrepresentable: 'any',
    // The descriptions have the defaults, in the words of a job file.
    override: ({ jsonSchema }) => void delete jsonSchema.default,
  });
  terminal.out(`${JSON.stringify({ ...document, title: 'flowdrop job file' }, undefined, 2)}\n`);
  return undefined;
}
