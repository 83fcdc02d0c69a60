// One worker is the HTTP server, the others have the model. A worker that is started in the place of another keeps its LOCAL_RANK.
if (process.env.LOCAL_RANK === '0') await import('./server.ts');
else await import('./worker.ts');
