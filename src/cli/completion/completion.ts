/**
 * `flowdrop completion SHELL` prints the script by which a shell completes commands, flags and jobs; `flowdrop complete`
 * is what the script asks, at every key press, so that it loads nothing heavy. Not for people: it is hidden.
 */
import { Argument } from 'commander';
import type { Register } from '../command.ts';

export const registerCompletion: Register = (program, context, act) => {
  program
    .command('completion')
    .description('print a script that completes commands, flags and jobs in your shell')
    .addArgument(new Argument('<shell>', 'your shell').choices(['bash', 'zsh', 'fish']))
    .action(async (shell: string) => {
      await act(async () => {
        const { COMPLETION_SCRIPTS, SHELLS } = await import('./scripts.ts');
        // Commander lets none but its choices pass.
        for (const known of SHELLS) if (known === shell) context.terminal.out(COMPLETION_SCRIPTS[known]);
        return undefined;
      });
    });
  program
    .command('complete', { hidden: true })
    .argument('[word...]')
    .action(async (words: string[]) => {
      await act(async () => {
        const { listCandidates } = await import('./complete.ts');
        const { formatJobReference, listJobFiles } = await import('../../job/files.ts');
        const listJobs = async (folder: string) => {
          const files = await listJobFiles(folder).catch(() => []);
          return files.map(formatJobReference);
        };
        const found = await listCandidates(program, words, { listJobs });
        // One line each, whatever a description holds.
        for (const { word, description } of found)
          context.terminal.out(`${word}\t${description.replace(/\s+/g, ' ')}\n`);
        return undefined;
      });
    });
};
