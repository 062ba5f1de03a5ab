/**
 * Settings of the daemon's status page: where it listens, its address for readers, the token, how long runs are kept. No
 * message repeats a secret.
 */
import { Fault } from '../core/errors.ts';
import { formatListenAddress, isLoopback, type ListenAddress, parseListenAddress } from '../core/listen-address.ts';
import { DEFAULTS, type Environment, readSecret } from './settings.ts';

/** The shortest token: too long to guess over the network, or from a cookie derived from it. */
const MIN_TOKEN_CHARACTERS = 16;

export interface StatusSettings {
  readonly address: ListenAddress;
  /** The token that a viewer must send; `undefined`: none, which only an address of this machine may allow. */
  readonly token: string | undefined;
  /** Whether the page may act: start and stop runs, accept gaps. */
  readonly mayAct: boolean;
}

/** @throws Fault `SETTING_INVALID` */
function readMayAct(env: Environment): boolean {
  const text = env['FLOWDROP_STATUS_ACTIONS'] || DEFAULTS.FLOWDROP_STATUS_ACTIONS;
  if (text === 'on' || text === 'off') return text === 'on';
  throw new Fault('SETTING_INVALID', `FLOWDROP_STATUS_ACTIONS is ${JSON.stringify(text)}; allowed is on or off`, {
    kind: 'usage',
  });
}

/** Longer than any lookback or audit; ten years of runs would make every listing slow. */
const MAX_HISTORY_DAYS = 3650;

/** How many days the records of runs are kept on this machine. @throws Fault `SETTING_INVALID` */
export function readHistoryDays(env: Environment): number {
  const text = env['FLOWDROP_RUN_HISTORY_DAYS'] || DEFAULTS.FLOWDROP_RUN_HISTORY_DAYS;
  const days = Number(text);
  if (Number.isInteger(days) && days >= 1 && days <= MAX_HISTORY_DAYS) return days;
  throw new Fault(
    'SETTING_INVALID',
    `FLOWDROP_RUN_HISTORY_DAYS is ${JSON.stringify(text)}; allowed is a whole number from 1 to ${MAX_HISTORY_DAYS}`,
    { kind: 'usage' },
  );
}

/** Where the daemon shows its status; `undefined` if `off`. @throws Fault that does not contain the token */
export function readStatusSettings(env: Environment, cwd: string): StatusSettings | undefined {
  const text = env['FLOWDROP_STATUS_ADDRESS'] || DEFAULTS.FLOWDROP_STATUS_ADDRESS;
  if (text === 'off') return undefined;
  const address = parseListenAddress(text);
  if (!address) {
    throw new Fault(
      'SETTING_INVALID',
      `FLOWDROP_STATUS_ADDRESS is ${JSON.stringify(text)}; allowed is host:port or off`,
      {
        kind: 'usage',
        hint: 'For example 127.0.0.1:8686; [::]:8686 or :8686 for every address of the machine, which needs a token.',
      },
    );
  }
  const token = readSecret(env, 'FLOWDROP_STATUS_TOKEN', cwd);
  if (token !== undefined && !(token.length >= MIN_TOKEN_CHARACTERS && /^[!-~]+$/.test(token))) {
    const allowed = `${MIN_TOKEN_CHARACTERS} or more visible ASCII characters without spaces`;
    throw new Fault('SETTING_INVALID', `FLOWDROP_STATUS_TOKEN is not a valid token; allowed are ${allowed}`, {
      kind: 'usage',
      hint: 'Make one with `openssl rand -hex 24`.',
    });
  }
  if (token === undefined && !isLoopback(address.host)) {
    const shown = formatListenAddress(address);
    throw new Fault('SETTING_MISSING', `FLOWDROP_STATUS_ADDRESS is ${shown}, and FLOWDROP_STATUS_TOKEN is not set`, {
      kind: 'usage',
      hint: 'Other machines need a token: set FLOWDROP_STATUS_TOKEN or FLOWDROP_STATUS_TOKEN_FILE.',
    });
  }
  return { address, token, mayAct: readMayAct(env) };
}

/** Where readers of mails reach the status page, without a slash at the end. @throws Fault `SETTING_INVALID` */
export function readPublicUrl(env: Environment): string | undefined {
  const text = env['FLOWDROP_PUBLIC_URL'];
  if (!text) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.search && !url.hash)
    return url.href.replace(/\/+$/, '');
  throw new Fault(
    'SETTING_INVALID',
    'FLOWDROP_PUBLIC_URL is not an address for readers; allowed is http or https, host, port and path',
    { kind: 'usage', hint: 'For example https://flowdrop.example.com, where a proxy serves the status page.' },
  );
}
