/**
 * Reports a materialization of an external asset, which starts the assets that depend on it. Dagster+ also needs the header
 * `Dagster-Cloud-Api-Token`.
 */
const { DAGSTER_URL } = process.env;

export function forward({ type, data }) {
  if (!type.startsWith('drop.')) return;
  return fetch(`${DAGSTER_URL}/report_asset_materialization/${data.dataset}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      partition: data.date,
      data_version: data.sha256,
      metadata: { rows: data.rows, revision: data.revision, object: data.object },
    }),
  });
}
