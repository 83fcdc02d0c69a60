/** @file What no test may do, whatever it is about. */

// Node makes a timer that is too long one of a millisecond, and what should have been waited for is given up at once.
process.on('warning', (warning) => {
  if (warning.name === 'TimeoutOverflowWarning') throw warning;
});
