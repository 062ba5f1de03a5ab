/** What pdfkit 0.20 takes beyond its published types (0.17): the tags that make a table readable aloud. */
declare namespace PDFKit.Mixins {
  interface TableOptions {
    /** Element of the document's structure that the table belongs to. */
    readonly structParent?: PDFKit.PDFStructureElement;
  }
  interface CellOptions {
    /** Of a `TH`: what it is the header of. */
    readonly scope?: 'Row' | 'Column';
  }
}
