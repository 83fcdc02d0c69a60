/** @file The order of the pages. Every page of the site stands here; a check says which does not. */
import type { DefaultTheme } from 'vitepress';

export const navigation: DefaultTheme.NavItem[] = [
  { text: 'Start', link: '/start' },
  { text: 'Concepts', link: '/concepts/workers', activeMatch: '^/concepts/' },
  { text: 'Guides', link: '/guides/', activeMatch: '^/guides/' },
  { text: 'API', link: '/api/', activeMatch: '^/api/' },
];

const page = (text: string, link: string): DefaultTheme.SidebarItem => ({ text, link });

export const sidebar: DefaultTheme.SidebarItem[] = [
  {
    text: 'Begin',
    items: [
      page('What it is', '/project/readme'),
      page('Start in five minutes', '/start'),
      page('Coming from torch.distributed.rpc', '/from-torch'),
      page('Coming from tfjs, Ray, tRPC or gRPC', '/from-others'),
    ],
  },
  {
    text: 'Concepts',
    items: [
      page('Workers and groups', '/concepts/workers'),
      page('Calls', '/concepts/calls'),
      page('Values and tensors', '/concepts/values'),
      page('Remote references', '/concepts/references'),
      page('Autograd contexts', '/concepts/autograd'),
      page('Optimisers and modules', '/concepts/optimisers'),
      page('Profiles and traces', '/concepts/profiles'),
      page('Failure', '/concepts/failure'),
      page('Security', '/concepts/security'),
    ],
  },
  {
    text: 'Guides',
    items: [
      page('All guides', '/guides/'),
      page('A tensor service behind HTTP', '/guides/tensor-service'),
      page('A parameter server', '/guides/parameter-server'),
      page('A pipeline', '/guides/pipeline'),
      page('Actors and a learner', '/guides/actors'),
      page('Threads in one process', '/guides/threads'),
      page('A page as a worker', '/guides/pages'),
      page('TypeScript beside PyTorch', '/guides/torch'),
      page('Data loading', '/guides/data-loading'),
      page('Checkpoints and restarts', '/guides/checkpoints'),
      page('Observability', '/guides/observability'),
      page('Testing your program', '/guides/testing'),
      page('Deployment', '/guides/deployment'),
      page('Examples', '/guides/examples'),
      page('Porting a model', '/porting'),
    ],
  },
  {
    text: 'Looking up',
    items: [
      page('Patterns', '/patterns'),
      page('Errors', '/errors'),
      page('Troubleshooting', '/troubleshooting'),
      page('Performance', '/performance'),
      page('Gotchas', '/gotchas'),
    ],
  },
  {
    text: 'API reference',
    items: [
      page('All names', '/api/'),
      page('backwire', '/api/backwire'),
      page('@backwire/rpc', '/api/rpc'),
      page('@backwire/rref', '/api/rref'),
      page('@backwire/dist-autograd', '/api/dist-autograd'),
      page('@backwire/profiler', '/api/profiler'),
      page('@backwire/launch', '/api/launch'),
      page('@backwire/wire', '/api/wire'),
      page('@backwire/torch', '/api/torch'),
      {
        text: '@backwire/tensor',
        link: '/api/tensor/',
        collapsed: true,
        items: [
          page('nn', '/api/tensor/namespaces/nn/'),
          page('optim', '/api/tensor/namespaces/optim/'),
          page('data', '/api/tensor/namespaces/data'),
          page('distributions', '/api/tensor/namespaces/distributions'),
          page('sparse', '/api/tensor/namespaces/sparse'),
        ],
      },
    ],
  },
  {
    text: 'Packages',
    collapsed: true,
    items: ['backwire', 'rpc', 'rref', 'dist-autograd', 'profiler', 'launch', 'wire', 'tensor', 'torch'].map((name) =>
      page(name === 'backwire' ? name : `@backwire/${name}`, `/packages/${name}`),
    ),
  },
  {
    text: 'Operating',
    collapsed: true,
    items: [
      page('One machine', '/deploy/one-machine'),
      page('Several machines, TLS', '/deploy/several-machines-tls'),
      page('Kubernetes', '/deploy/kubernetes'),
      page('Slurm', '/deploy/slurm'),
      page('torchrun', '/deploy/torchrun'),
      page('Bun and Deno', '/deploy/bun-and-deno'),
      page('Observability', '/observability'),
      page('Stores', '/stores'),
      page('Who can get in', '/security'),
      page('Versions', '/versioning'),
    ],
  },
  {
    text: 'How it works',
    collapsed: true,
    items: [
      page('Architecture', '/architecture'),
      page('Protocol', '/protocol'),
      page('Frames', '/protocol/frames'),
      page('References', '/protocol/rref'),
      page('Autograd', '/protocol/autograd'),
      page('Numbers', '/numerics'),
      page('How it is tested', '/testing'),
      page('Compared with PyTorch', '/compat'),
      page('Results', '/project/results'),
    ],
  },
  {
    text: 'The project',
    collapsed: true,
    items: [
      page('Changelog', '/project/changelog'),
      page('Contributing', '/project/contributing'),
      page('Code of conduct', '/project/conduct'),
      page('Reporting a vulnerability', '/project/reporting'),
      page('Releasing', '/project/releasing'),
    ],
  },
];
