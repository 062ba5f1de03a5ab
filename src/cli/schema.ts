/** `flowdrop schema`: the JSON Schema of job files, made from the shape that checks them. */
import type { Register } from './command.ts';

export const registerSchema: Register = (program, context, act) => {
  program
    .command('schema')
    .description('print the JSON Schema of job files')
    .action(async () => {
      await act(async () => {
        const { z } = await import('zod');
        const { jobSchema } = await import('../job/shape.ts');
        const schema = z.toJSONSchema(jobSchema, { io: 'input', unrepresentable: 'any' });
        context.terminal.out(`${JSON.stringify({ ...schema, title: 'flowdrop job file' }, undefined, 2)}\n`);
        return undefined;
      });
    });
};
