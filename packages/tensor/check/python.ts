/** @file Where PyTorch is. */

/** The Python that BACKWIRE_TORCH_PYTHON names; undefined, with a word on standard output, where it names none. */
export function findPython(): string | undefined {
  const python = process.env['BACKWIRE_TORCH_PYTHON'];
  if (python !== undefined && python !== '') return python;
  console.log(
    'check:numerics compares with PyTorch: set BACKWIRE_TORCH_PYTHON to a Python that has it. Nothing was checked.',
  );
  return undefined;
}
