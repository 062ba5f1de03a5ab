/** What a run needs: to export, and to deliver what it sealed. */
import type { DeliverContext } from '../deliver/delivery.ts';
import type { ExportContext } from '../export/export-context.ts';

export interface RunContext extends ExportContext, DeliverContext {}
