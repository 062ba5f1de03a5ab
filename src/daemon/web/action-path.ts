/** Names and addresses of the page's actions, and where the token of a form goes. */
import { randomBytes } from 'node:crypto';

export const ACTIONS = ['run', 'retry', 'stop', 'price', 'backfill', 'audit', 'accept', 'send', 'reload'] as const;

export type ActionName = (typeof ACTIONS)[number];

const PREFIX = '/actions/';

/** The id of a page's form that its buttons belong to. */
export const ACTION_FORM = 'act';

/** Stands in a drawn page for the token of each answer, which is new; nobody can guess it into a text of the page. */
export const TOKEN_SLOT = `slot-${randomBytes(16).toString('hex')}`;

/** `/actions/run?job=nightly` */
export function actionPath(action: ActionName, fields: Readonly<Record<string, string | undefined>> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) query.set(name, value);
  return `${PREFIX}${action}${query.size > 0 ? `?${query}` : ''}`;
}

/** `undefined` for an address of no action. */
export function findAction(path: string): ActionName | undefined {
  return ACTIONS.find((action) => PREFIX + action === path);
}
