/**
 * The allow-list of recipients' domains. Invariant: with a list nobody outside it is mailed, whatever a job file says, and
 * a list of recipients is refused before the first of them is mailed.
 */
import { Fault } from '../core/errors.ts';
import type { Mailer } from './mailer.ts';
import { parseAddress } from './message.ts';

const DOMAIN = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;

/** `example.com, desk.example.org`: exactly these, not what lies below them. @throws Fault `SETTING_INVALID` (usage) */
export function parseMailDomains(text: string): readonly string[] {
  const domains = text
    .split(',')
    .map((domain) => domain.trim().toLowerCase())
    .filter((domain) => domain !== '');
  const wrong = domains.find((domain) => !DOMAIN.test(domain));
  if (wrong === undefined && domains.length > 0) return domains;
  throw new Fault(
    'SETTING_INVALID',
    `FLOWDROP_MAIL_DOMAINS is ${JSON.stringify(text)}${wrong === undefined ? '' : `, of which "${wrong}" is no domain`}`,
    { kind: 'usage', hint: 'Write domains with commas between them: example.com,desk.example.org.' },
  );
}

/** The mailer, kept to these domains. */
export function restrictMailer(mailer: Mailer, domains: readonly string[]): Mailer {
  return {
    ...mailer,
    allowedDomains: domains,
    async send(message, options) {
      assertAllowedRecipients({ allowedDomains: domains }, [message.to]);
      return await mailer.send(message, options);
    },
  };
}

/** @throws Fault `MAIL_DOMAIN_REFUSED` (usage) naming every address that may not be mailed */
export function assertAllowedRecipients(mailer: Pick<Mailer, 'allowedDomains'>, addresses: readonly string[]): void {
  const allowed = mailer.allowedDomains;
  if (allowed === undefined) return;
  const refused = addresses.filter((address) => !allowed.includes(domainOf(address)));
  if (refused.length === 0) return;
  throw new Fault(
    'MAIL_DOMAIN_REFUSED',
    `nobody was mailed, because of ${refused.join(', ')}: FLOWDROP_MAIL_DOMAINS allows ${allowed.join(', ')}`,
    { kind: 'usage', hint: 'Take the address out of the job file, or add its domain to FLOWDROP_MAIL_DOMAINS.' },
  );
}

/** Of an address, with a name before it or not; lower case. @throws Fault `MAIL_ADDRESS_INVALID` (usage) */
export function domainOf(address: string): string {
  const { address: bare } = parseAddress('to', address);
  return bare.slice(bare.lastIndexOf('@') + 1).toLowerCase();
}
