/** @file The site: its pages, their order, and how it looks. */
import { defineConfig, type DefaultTheme } from 'vitepress';
import { linkNames } from './names.ts';
import { navigation, sidebar } from './sidebar.ts';

export default defineConfig({
  title: 'Backwire',
  description: 'Distributed RPC, remote references and distributed autograd for TypeScript.',
  lang: 'en',
  srcDir: 'out/pages',
  outDir: 'out/site',
  cacheDir: 'out/cache',
  cleanUrls: true,
  // The check of the built pages knows anchors, too.
  ignoreDeadLinks: true,
  head: [['link', { rel: 'icon', href: '/mark.svg', type: 'image/svg+xml' }]],
  markdown: { config: linkNames },
  // The index of the search is one file.
  vite: { build: { chunkSizeWarningLimit: 4_000 } },
  themeConfig: {
    logo: '/mark.svg',
    nav: navigation,
    sidebar,
    outline: { level: [2, 3] },
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: 'https://github.com/backwire/backwire' }],
    docFooter: { prev: 'Before', next: 'Next' },
    footer: { message: 'MIT licence' },
  } satisfies DefaultTheme.Config,
});
