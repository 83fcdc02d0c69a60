/** @file The reference of all published packages as Markdown, made from their doc comments by TypeDoc. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Application, Converter, DeclarationReflection, OptionDefaults, type TypeDocOptions } from 'typedoc';
import { publishedPackages, REPOSITORY, root, site } from './repository.ts';

/** Writes the pages of the reference into `folder`: one a package, and one a namespace of it. */
export async function writeReference(folder: string): Promise<void> {
  const packages = publishedPackages();
  const options: Partial<TypeDocOptions> & Record<string, unknown> = {
    entryPoints: packages.map(({ entry }) => join(root, entry)),
    tsconfig: join(site, 'tsconfig.api.json'),
    plugin: ['typedoc-plugin-markdown'],
    basePath: root,
    readme: 'none',
    name: 'API reference',
    excludeInternal: true,
    excludePrivate: true,
    excludeExternals: true,
    excludeTags: ['@file', ...OptionDefaults.excludeTags],
    blockTags: ['@file', ...OptionDefaults.blockTags],
    skipErrorChecking: true,
    disableGit: true,
    sourceLinkTemplate: `${REPOSITORY}/blob/main/packages/{path}#L{line}`,
    validation: false,
    logLevel: 'Warn',
    // Of the plugin for Markdown.
    router: 'module',
    hideBreadcrumbs: true,
    hidePageHeader: true,
    useCodeBlocks: true,
    useCustomAnchors: true,
    parametersFormat: 'table',
    entryFileName: 'index',
    excludeScopesInPaths: true,
    sanitizeComments: true,
  };
  const app = await Application.bootstrapWithPlugins(options);
  app.converter.on(Converter.EVENT_RESOLVE_END, ({ project }) => {
    for (const module of project.children ?? []) {
      const file = module.sources?.[0]?.fullFileName ?? '';
      module.name = packages.find(({ folder: of }) => file.includes(`/${of}/`))?.name ?? module.name;
    }
    for (const reflection of Object.values(project.reflections))
      if (reflection instanceof DeclarationReflection && hidden(reflection)) project.removeReflection(reflection);
  });
  const project = await app.convert();
  if (project === undefined) throw new Error('TypeDoc could not read the packages');
  await app.outputs.writeOutput({ name: 'markdown', path: folder }, project);
  for (const page of readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.md')))
    writeFileSync(join(folder, page), withLabels(readFileSync(join(folder, page), 'utf8')));
}

/** What every class of `nn` would repeat: all that `Module` has, and the symbol of its name. */
function hidden(reflection: DeclarationReflection): boolean {
  return reflection.inheritedFrom !== undefined || reflection.name === '[rpcName]';
}

/** Headings without an anchor of their own ('Parameters', 'Constructor') become labels, to which no link leads: names alone are headings. */
export function withLabels(markdown: string): string {
  return markdown
    .replace(/^#{4,6} ([^{\n]+)$/gm, '**$1**')
    .replace(/\[([^\]\n]+)\]\([^)\s]*#constructor(?:-\d+)?\)/g, '$1');
}
