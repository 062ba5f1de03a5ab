/**
 * Posts a line to an incoming webhook; for a report, its text and a link. Pictures need a bot token with `files:write` and the
 * id of a channel; without both, only text is posted.
 */
const { SLACK_WEBHOOK_URL, SLACK_API_URL = 'https://slack.com/api', SLACK_BOT_TOKEN, SLACK_CHANNEL_ID } = process.env;

export async function forward({ type, data }) {
  const rows = data.rows === undefined ? '' : `, ${data.rows.toLocaleString('en-US')} rows`;
  const line = `${type}: ${data.dataset} ${data.date} is ${data.condition}${rows}`;
  const text =
    escapeText(type === 'report.posted' ? data.text : line) + (data.link ? `\n<${data.link}|Full report>` : '');
  if (data.picture && SLACK_BOT_TOKEN) return upload(data.picture, text);
  return post(SLACK_WEBHOOK_URL, 'application/json', JSON.stringify({ text }));
}

/** Symbols are data: none may mention a channel or make a link. */
const escapeText = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

const post = (url, type, body, headers = {}) =>
  fetch(url, { method: 'POST', headers: { 'content-type': type, ...headers }, body });

/** Slack's API answers 200 even to calls that it refuses. */
async function call(method, type, body) {
  const headers = { authorization: `Bearer ${SLACK_BOT_TOKEN}` };
  const answer = await (await post(`${SLACK_API_URL}/${method}`, type, body, headers)).json();
  if (!answer.ok) throw new Error(`Slack: ${method}: ${answer.error}`);
  return answer;
}

/** Requests an upload URL, sends the bytes there, shares the file with the text. */
async function upload({ base64, alt }, text) {
  const bytes = Buffer.from(base64, 'base64');
  const form = new URLSearchParams({ filename: 'flow.png', length: String(bytes.length), alt_txt: alt });
  const asked = await call('files.getUploadURLExternal', 'application/x-www-form-urlencoded', String(form));
  const sent = await post(asked.upload_url, 'application/octet-stream', bytes);
  if (!sent.ok) return sent;
  const files = [{ id: asked.file_id, title: 'Options flow' }];
  const share = JSON.stringify({ files, channel_id: SLACK_CHANNEL_ID, initial_comment: text });
  return { ...(await call('files.completeUploadExternal', 'application/json', share)), status: 200 };
}
