/** What flowdrop uses of mjml 5, which ships no types. */
declare module 'mjml' {
  interface MjmlOptions {
    /** `strict` throws on an unknown element or attribute, with what is wrong in the message. */
    readonly validationLevel: 'strict' | 'soft' | 'skip';
    readonly keepComments: boolean;
    /** Web fonts to load, by name; the default is a list of Google's. */
    readonly fonts: Readonly<Record<string, string>>;
    /** Of the style inliner: whether styles are repeated as HTML attributes. */
    readonly juiceOptions: { readonly applyAttributesTableElements: boolean; readonly applyWidthAttributes: boolean };
  }
  /** @throws Error when the markup is invalid */
  function mjml2html(mjml: string, options: MjmlOptions): Promise<{ readonly html: string }>;

  export = mjml2html;
}
