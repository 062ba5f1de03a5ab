/** The part of parquetjs-lite that the tests use; the package ships no types. */
declare module 'parquetjs-lite' {
  interface Reader {
    getRowCount(): number | bigint;
    getSchema(): {
      readonly fields: Readonly<Record<string, { readonly name: string; readonly repetitionType: string }>>;
    };
    getCursor(): { next(): Promise<Readonly<Record<string, unknown>> | null> };
    close(): Promise<void>;
  }
  export const ParquetReader: { openFile(path: string, options: { rawStatistics: boolean }): Promise<Reader> };
}
