/** Options of pdfkit 0.20 that its published types (0.17) lack: the tags that let a screen reader read a table. */
declare namespace PDFKit.Mixins {
  interface TableOptions {
    /** Element of the document's structure that the table belongs to. */
    readonly structParent?: PDFKit.PDFStructureElement;
  }
  interface CellOptions {
    /** For a `TH`: whether it is a row's or a column's header. */
    readonly scope?: 'Row' | 'Column';
  }
}
