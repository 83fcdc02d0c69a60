/** @file Control messages on their way out: deletes of one turn joined, messages to members not seen yet kept until they are. */
import type { ExtensionHost } from '@backwire/rpc/internal';
import { MAX_DELETES_PER_MESSAGE, MAX_MESSAGES_TO_STRANGERS } from '../limits.ts';
import type { GlobalId, MemberKey } from '../protocol/ids.ts';
import type { Control } from '../protocol/messages.ts';
import type { MemberDirectory } from '../members.ts';
import { encodeControl } from './control-codec.ts';

export class ControlSender {
  private readonly host: Pick<ExtensionHost, 'control' | 'logger'>;
  private readonly members: MemberDirectory;
  private deletes = new Map<MemberKey, GlobalId[]>();
  private scheduled = false;
  private readonly kept = new Map<MemberKey, Control[]>();
  private closed = false;
  private deleteMessages = 0;

  constructor(host: Pick<ExtensionHost, 'control' | 'logger'>, members: MemberDirectory) {
    this.host = host;
    this.members = members;
  }

  /** Messages of deletes that left so far. */
  get deletesSent(): number {
    return this.deleteMessages;
  }

  send(to: MemberKey, message: Control): void {
    if (this.closed) return;
    if (message.kind !== 'user-delete') {
      this.emit(to, message);
      return;
    }
    const list = this.deletes.get(to);
    if (list === undefined) this.deletes.set(to, [...message.forks]);
    else list.push(...message.forks);
    if (this.scheduled) return;
    this.scheduled = true;
    queueMicrotask(() => this.flush());
  }

  /** Sends the deletes of this turn. A delete that is late harms nobody, so they may be overtaken by anything. */
  flush(): void {
    this.scheduled = false;
    const { deletes } = this;
    this.deletes = new Map();
    for (const [to, forks] of deletes) {
      for (let at = 0; at < forks.length; at += MAX_DELETES_PER_MESSAGE) {
        this.deleteMessages++;
        this.emit(to, { kind: 'user-delete', forks: forks.slice(at, at + MAX_DELETES_PER_MESSAGE) });
      }
    }
  }

  /** A member is known now: what was kept for it goes out. */
  met(member: MemberKey): void {
    const messages = this.kept.get(member);
    if (messages === undefined) return;
    this.kept.delete(member);
    for (const message of messages) this.emit(member, message);
  }

  /** A member will never be met: what was kept for it is void. */
  lost(member: MemberKey): void {
    this.kept.delete(member);
    this.deletes.delete(member);
  }

  close(): void {
    this.flush();
    this.closed = true;
    this.kept.clear();
  }

  private emit(to: MemberKey, message: Control): void {
    if (this.closed) return;
    const worker = this.members.member(to);
    if (worker === undefined) {
      this.keep(to, message);
      return;
    }
    const { type, payload } = encodeControl(message);
    this.host.control(worker, type, payload);
  }

  private keep(to: MemberKey, message: Control): void {
    const messages = this.kept.get(to) ?? [];
    if (messages.length >= MAX_MESSAGES_TO_STRANGERS) {
      this.host.logger.warn(
        { member: to, kind: message.kind },
        'too many messages wait for a worker that nobody introduced',
      );
      return;
    }
    messages.push(message);
    this.kept.set(to, messages);
  }
}
