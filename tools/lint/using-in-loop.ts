/** @file The lint rule about `using` where esbuild, and with it tsx, compiles it wrongly. */
import type { Rule } from 'eslint';

type Node = Rule.Node;

const LOOPS: ReadonlySet<string> = new Set([
  'ForStatement',
  'ForInStatement',
  'ForOfStatement',
  'WhileStatement',
  'DoWhileStatement',
]);
/** Variables that esbuild declares do not leave these. */
const BORDERS = /Function|^StaticBlock$|^Program$/;

/**
 * esbuild (0.28) keeps the error of a block with `using` in a `var`, which the next pass of a loop finds as the last one left it: where a
 * `catch` inside the loop took the error, a later pass that goes well throws it once more.
 */
export const noUsingInLoop: Rule.RuleModule = {
  meta: {
    type: 'problem',
    docs: { description: 'no `using` inside of a `try` with a `catch` inside of a loop' },
    messages: {
      again:
        'tsx throws the error of this pass again in a later one: put the body of the loop into a function, or dispose in finally.',
    },
  },
  create: (context) => ({
    'VariableDeclaration[kind=/using$/]'(node: Node) {
      let caught = false;
      for (let at: Node | null = node; at !== null && !BORDERS.test(at.type); at = at.parent) {
        if (caught && LOOPS.has(at.type)) return context.report({ node, messageId: 'again' });
        const parent: Node | null = at.parent;
        if (parent?.type === 'TryStatement' && parent.block === at && parent.handler != null) caught = true;
      }
    },
  }),
};
