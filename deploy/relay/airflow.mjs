/**
 * Triggers a DAG, which reads `dag_run.conf["object"]`. The run's id is the event's, so Airflow answers a repeated event with
 * 409. For Airflow 2 replace `v2` by `v1` and leave out `logical_date`.
 */
const { AIRFLOW_URL, AIRFLOW_TOKEN } = process.env;

export function forward({ type, id, data }) {
  if (!type.startsWith('drop.')) return;
  return fetch(`${AIRFLOW_URL}/api/v2/dags/options_flow/dagRuns`, {
    method: 'POST',
    headers: { authorization: `Bearer ${AIRFLOW_TOKEN}`, 'content-type': 'application/json' },
    // A run's id must not contain a slash.
    body: JSON.stringify({ dag_run_id: id.replaceAll('/', '.'), logical_date: null, conf: data }),
  });
}
