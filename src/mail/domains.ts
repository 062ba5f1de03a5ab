/**
 * The allow-list of recipient domains. Invariant: if it is set, no address outside it is mailed, whatever a job file
 * says. If any recipient is outside it, the whole list is refused before the first mail.
 */
import { Fault } from '../core/errors.ts';
import type { Mailer } from './mailer.ts';
import { parseAddress } from './message.ts';

const DOMAIN = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;

/** `example.com, desk.example.org`: exactly these, without their subdomains. @throws Fault `SETTING_INVALID` (usage) */
export function parseMailDomains(text: string): readonly string[] {
  const domains = text
    .split(',')
    .map((domain) => domain.trim().toLowerCase())
    .filter((domain) => domain !== '');
  const wrong = domains.find((domain) => !DOMAIN.test(domain));
  if (wrong === undefined && domains.length > 0) return domains;
  throw new Fault(
    'SETTING_INVALID',
    `FLOWDROP_MAIL_DOMAINS is ${JSON.stringify(text)}${wrong === undefined ? '' : `, and "${wrong}" is not a domain`}`,
    { kind: 'usage', hint: 'Separate domains with commas: example.com,desk.example.org.' },
  );
}

/** Restricts the mailer to these domains. */
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

/** @throws Fault `MAIL_DOMAIN_REFUSED` (usage) that names every refused address */
export function assertAllowedRecipients(mailer: Pick<Mailer, 'allowedDomains'>, addresses: readonly string[]): void {
  const allowed = mailer.allowedDomains;
  if (allowed === undefined) return;
  const refused = addresses.filter((address) => !allowed.includes(domainOf(address)));
  if (refused.length === 0) return;
  throw new Fault(
    'MAIL_DOMAIN_REFUSED',
    `no mail was sent: FLOWDROP_MAIL_DOMAINS does not allow ${refused.join(', ')}; allowed: ${allowed.join(', ')}`,
    { kind: 'usage', hint: 'Take the address out of the job file, or add its domain to FLOWDROP_MAIL_DOMAINS.' },
  );
}

/** The domain of an address with or without a name, in lower case. @throws Fault `MAIL_ADDRESS_INVALID` (usage) */
export function domainOf(address: string): string {
  const { address: bare } = parseAddress('to', address);
  return bare.slice(bare.lastIndexOf('@') + 1).toLowerCase();
}
