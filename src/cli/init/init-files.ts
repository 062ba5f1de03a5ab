/**
 * The settings file that `flowdrop init` writes, and what is chosen for it and for the job file. What was not chosen stays
 * in as comments. Pure. Invariant: every value is read back exactly as it was given.
 */
import { Fault } from '../../core/errors.ts';

/** Choices from flags or answers. Empty texts and lists are left out. */
export interface InitChoice {
  readonly name: string;
  readonly to: string;
  readonly recipients: readonly string[];
  readonly symbols: readonly string[];
  readonly apiUrl: string;
  readonly apiKey: string;
  readonly apiKeyFile: string;
  readonly smtpUrl: string;
  readonly smtpUrlFile: string;
  readonly mailFrom: string;
}

export const INIT_DEFAULTS = {
  name: 'nightly-trades',
  to: 'out/drops',
  symbols: ['SPY', 'QQQ', 'NVDA'],
} as const;

export function buildSettingsText(choice: InitChoice): string {
  const { apiUrl, apiKey, apiKeyFile, smtpUrl, smtpUrlFile, mailFrom } = choice;
  return `# Settings of flowdrop, read when it starts in this directory; environment variables override them.
# It holds secrets: readable by its owner only (mode 600); do not commit it.

# Address and key of the options data API. A key may be in a separate file.
${formatSetting('FLOWDROP_API_URL', apiUrl, 'https://api.example.com')}
${formatSetting('FLOWDROP_API_KEY', apiKey, 'cus_...')}
${formatSetting('FLOWDROP_API_KEY_FILE', apiKeyFile, '/run/secrets/flowdrop-key')}

# Mail: without a server it is written to out/mail.
${formatSetting('FLOWDROP_SMTP_URL', smtpUrl, 'smtps://user:password@smtp.example.com:465')}
${formatSetting('FLOWDROP_SMTP_URL_FILE', smtpUrlFile, '/run/secrets/flowdrop-smtp')}
${formatSetting('FLOWDROP_MAIL_FROM', mailFrom, 'flow@example.com')}

# S3, for drops to s3://...: credentials as for every AWS tool, the address only for services other than AWS.
# AWS_REGION=us-east-1
# AWS_ACCESS_KEY_ID=...
# AWS_SECRET_ACCESS_KEY=...
# AWS_ENDPOINT_URL_S3=https://s3.example.com
# FLOWDROP_S3_PATH_STYLE=true

# The status page of \`flowdrop start\`; any address but localhost needs a token.
# FLOWDROP_STATUS_ADDRESS=127.0.0.1:8686
# FLOWDROP_STATUS_TOKEN=...

# Where staged rows and the API's limits are kept; losing it loses no sealed row.
# FLOWDROP_STATE_DIR=.flowdrop
`;
}

function formatSetting(name: string, value: string, example: string): string {
  return value === '' ? `# ${name}=${example}` : `${name}=${quoteSetting(value)}`;
}

/**
 * Quotes a value for Node's reader of settings files: text in quotes is literal, except `\n` in double quotes.
 * @throws Fault `SETTING_INVALID`
 */
export function quoteSetting(value: string): string {
  if (/^[\w./:@%+,=?&~-]+$/.test(value)) return value;
  const quote = ["'", '`', '"'].find((mark) => !value.includes(mark) && !(mark === '"' && value.includes('\\n')));
  if (quote !== undefined && !/[\r\n]/.test(value)) return quote + value + quote;
  // The message does not repeat the value: it may be a secret.
  throw new Fault('SETTING_INVALID', 'a settings file cannot hold this value: it contains every kind of quote', {
    kind: 'usage',
    hint: 'Put it into a file, and set the file name: FLOWDROP_API_KEY_FILE, FLOWDROP_SMTP_URL_FILE.',
  });
}
