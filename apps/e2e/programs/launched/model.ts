/** What tsx knows and type stripping does not. */
export enum Role {
  Server = 'server',
  Caller = 'caller',
}
