/** Types for the part of mjml 5 that flowdrop uses; mjml ships none. */
declare module 'mjml' {
  interface MjmlOptions {
    /** `strict` throws on an unknown element or attribute, with the reason in the message. */
    readonly validationLevel: 'strict' | 'soft' | 'skip';
    readonly keepComments: boolean;
    /** Web fonts to load, by name; the default is a list of Google fonts. */
    readonly fonts: Readonly<Record<string, string>>;
    /** For the style inliner: whether styles are repeated as HTML attributes. */
    readonly juiceOptions: { readonly applyAttributesTableElements: boolean; readonly applyWidthAttributes: boolean };
  }
  /** @throws Error if the markup is invalid */
  function mjml2html(mjml: string, options: MjmlOptions): Promise<{ readonly html: string }>;

  export = mjml2html;
}
