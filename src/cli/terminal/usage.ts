/** What the parser of the command line refuses, told as every other failure is: what, what is allowed, what next. Pure. */
import type { Command, CommanderError } from 'commander';
import { Fault } from '../../core/errors.ts';
import { findNearest } from '../../core/nearest.ts';

/** @param argv what was typed, so that the hint can name the command whose help says more */
export function describeUsage(error: CommanderError, program: Command, argv: readonly string[]): Fault {
  const text = error.message.replace(/^error: /, '');
  const [, said = text, suggested] = /^([\s\S]*?)\n\((Did you mean [\s\S]*?)\)$/.exec(text) ?? [];
  const [message = said] = said.split('\n');
  const near = suggested ?? suggestValue(message);
  const command = program.commands.find((known) => argv.includes(known.name()));
  const help = command ? `flowdrop ${command.name()} --help` : 'flowdrop --help';
  const next = error.code === 'commander.unknownCommand' ? 'lists the commands' : 'tells what it takes';
  return new Fault('USAGE', message, { kind: 'usage', hint: `${near ? `${near} ` : ''}\`${help}\` ${next}.` });
}

/** `flowdrop help NAME` of a command that there is not: the parser would print the whole help, and say nothing. */
export function findUnknownTopic(program: Command, [first, topic]: readonly string[]): Fault | undefined {
  const names = program.commands.map((command) => command.name());
  if (first !== 'help' || topic === undefined || topic.startsWith('-') || names.includes(topic)) return undefined;
  const near = findNearest(topic, names);
  const hint = `${near ? `Did you mean ${near}? ` : ''}\`flowdrop --help\` lists the commands.`;
  return new Fault('USAGE', `unknown command '${topic}'`, { kind: 'usage', hint });
}

/** Of a value that is none of its choices: the choice that was most likely meant. */
function suggestValue(message: string): string | undefined {
  const [, came, allowed] = /'([^']*)' is invalid\. Allowed choices are (.*)\.$/.exec(message) ?? [];
  if (came === undefined || allowed === undefined) return undefined;
  const near = findNearest(came, allowed.split(', '));
  return near && `Did you mean ${near}?`;
}
