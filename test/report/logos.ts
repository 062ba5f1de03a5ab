/** Pictures that stand for a company's logo, and a look with one. */
import { drawLogo } from '../../src/report/draw/picture.ts';
import { type ReportLook, USUAL_LOOK } from '../../src/report/look.ts';

/** A picture with a shape of two colours; without a size it has only its proportions. */
export function createSvgLogo(width?: number, height?: number): string {
  const size = width === undefined ? '' : ` width="${width}" height="${height}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 500 100"${size}><script>alert(1)</script><rect width="100" height="100" rx="20" fill="#0b3d91"/><path d="M20 70 L45 35 L62 55 L82 25" stroke="#ffb000" stroke-width="10" fill="none"/><rect x="130" y="35" width="340" height="30" fill="#0b3d91"/></svg>`;
}

/** 12 x 6 pixels of one colour. */
export const JPEG_LOGO = Buffer.from(
  '/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBkeFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/wAARCAAGAAwDASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAb/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEBAQAAAAAAAAAAAAAAAAAABAX/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCbAWAH/9k=',
  'base64',
);

/** Everything that a job may choose, with words that are hard to fit. */
export async function createLook(): Promise<ReportLook> {
  return {
    ...USUAL_LOOK,
    ...{ title: 'Harbor Capital, flow of {dataset}', accent: '#ffd84d' },
    note: `Call at **8:30**, or \`a command\`.\n\n## Links\n\n1. [desk](https://example.com/)\n2. ${'long'.repeat(40)}\n\n> quoted`,
    logo: await drawLogo('logo.svg', Buffer.from(createSvgLogo())),
  };
}
