// A contestant of the comparison: `about`, or `serve URL SETTINGS`. See ../README.md.

import { say, serve } from './serve.js';
import { about } from './store.js';

// Standard output is for answers, whatever a library has to say.
console.log = console.info = console.debug = console.error;

const run = async ([command, url, settings, ...more]) => {
  if (command === 'about' && url === undefined) return say(about());
  if (command === 'serve' && settings && more.length === 0) return serve(url, JSON.parse(settings));
  throw new Error('usage: about | serve URL SETTINGS');
};

// Ends with its input, even if something is still followed.
run(process.argv.slice(2)).then(
  () => process.exit(0),
  (error) => {
    console.error(error?.message ?? error);
    process.exit(1);
  },
);
