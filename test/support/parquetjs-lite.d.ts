/** The part of parquetjs-lite that the tests use; the package ships no types. */
declare module 'parquetjs-lite' {
  interface Reader {
    getRowCount(): number | bigint;
    close(): Promise<void>;
  }
  export const ParquetReader: { openFile(path: string, options: { rawStatistics: boolean }): Promise<Reader> };
}
