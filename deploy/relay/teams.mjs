/**
 * Posts a card to a workflow with the trigger "When a Teams webhook request is received"; for a report, its text, picture and
 * a link.
 */
const { TEAMS_WORKFLOW_URL } = process.env;

export function forward({ type, data }) {
  const rows = data.rows === undefined ? '' : `, ${data.rows.toLocaleString('en-US')} rows`;
  const line = `${type}: ${data.dataset} ${data.date} is ${data.condition}${rows}`;
  const lines = type === 'report.posted' ? data.text.split('\n') : [line];
  // Rich text has no Markdown, so no symbol can make a link.
  const body = lines.map((text) => ({ type: 'RichTextBlock', inlines: [{ type: 'TextRun', text }] }));
  if (data.picture) {
    const { type: media, base64, alt } = data.picture;
    body.push({ type: 'Image', url: `data:${media};base64,${base64}`, altText: alt });
  }
  const actions = data.link ? [{ type: 'Action.OpenUrl', title: 'Full report', url: data.link }] : [];
  const content = { type: 'AdaptiveCard', version: '1.4', body, actions };
  const attachments = [{ contentType: 'application/vnd.microsoft.card.adaptive', content }];
  return fetch(TEAMS_WORKFLOW_URL, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ type: 'message', attachments }),
  });
}
