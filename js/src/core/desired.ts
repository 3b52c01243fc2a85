import { checkData, checkSize, checkStatus } from './data.ts'
import type { JsonObject, Status } from './member.ts'
import type { SetChange, Wish } from './stream.ts'

/**
 * What the application wants to be in one room. It lives apart from any connection: calls change it
 * at any time, and every new stream is told the whole of it. What an open stream still has to be
 * told is gathered as one change, in which the newest value of a key wins.
 */
export class Desired {
  /** Written here alone, as `data` and `status` are. */
  observe: boolean
  /** Null if there never was any. */
  data: JsonObject | null = null
  /** Null where it follows the person at the page. */
  status: Status | null = null
  /** The data that the open stream does not know yet, and the status that it does: all of it told, once `wish` was read. */
  change: Omit<SetChange, 'status'> = {}
  told: Status | null = null

  constructor(observe: boolean) {
    this.observe = observe
  }

  /** From observer to member; a member never turns into an observer without leaving. */
  present(): boolean {
    const changed = this.observe
    this.observe = false
    return changed
  }

  set(value: unknown, replace: boolean): void {
    const patch = checkData(value)
    // A spread defines keys, where assignment would give `__proto__` its old magic.
    const data = replace ? patch : { ...this.data, ...patch }
    checkSize(data)
    this.data = data
    this.change = replace ? { data, replace } : { ...this.change, data: { ...this.change.data, ...patch } }
  }

  /** null hands the status back to the activity of the page. */
  setStatus(status: Status | null): void {
    checkStatus(status)
    this.status = status
  }

  /** The whole, for a new stream: what was waiting to be told is in it. */
  wish(activity: Status): Wish {
    const status = this.status ?? activity
    this.change = {}
    this.told = status
    return { observe: this.observe, status, data: this.data }
  }
}
