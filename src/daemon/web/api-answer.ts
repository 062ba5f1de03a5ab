/** Answers the JSON API: each address with its document, everything else with an error in one shape. */
import { answerJson, type PageAnswer } from './answer.ts';
import { describeApi } from './api-description.ts';
import type { ApiReader } from './api-reader.ts';
import { runQuerySchema } from './api-shape.ts';
import { splitPath } from './page-path.ts';

/** For reading. @param path begins with `/api/` */
export async function answerApi(api: ApiReader, path: string, query: URLSearchParams): Promise<PageAnswer> {
  const [, first = '', job = '', id = '', last = '', ...more] = splitPath(path);
  if (more.length > 0) return refuse(404, 'NOT_FOUND', 'there is no such address');
  const words = Object.fromEntries([...query].filter(([, value]) => value !== ''));
  switch ([first, job && 'job', id && 'id', last].join('/').replace(/\/+$/, '')) {
    case 'openapi.json':
      return answerJson(200, describeApi((await api.look()).version));
    case 'jobs':
      return answerJson(200, await api.jobs());
    case 'jobs/job':
      return answerFound((await api.job(job))?.document, 'job');
    case 'runs': {
      const asked = runQuerySchema.safeParse(words);
      if (asked.success) return answerJson(200, await api.runs(asked.data));
      const [issue] = asked.error.issues;
      return refuse(400, 'PARAMETER_INVALID', `${issue?.path.join('.')}: ${issue?.message}`);
    }
    case 'runs/job/id':
      return answerFound(await api.run(job, id), 'run');
    case 'runs/job/id/log':
      return answerFound(await api.log(job, id, words), 'run');
    case 'drops/job/id':
      return answerFound(await api.drop(job, id, words['rows'] === '1'), 'job or date');
    case 'actions':
      return answerJson(200, { actions: await api.actions() });
    case 'reports':
      return answerJson(200, { reports: await api.reports(words) });
    default:
      return refuse(404, 'NOT_FOUND', 'there is no such address; /api/openapi.json lists them');
  }
}

function answerFound(document: unknown, what: string): PageAnswer {
  return document === undefined ? refuse(404, 'NOT_FOUND', `there is no such ${what}`) : answerJson(200, document);
}

export function refuse(status: number, code: string, message: string): PageAnswer {
  return answerJson(status, { error: { code, message } });
}
