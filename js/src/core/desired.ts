import { checkData, checkSize, checkStatus, mergeData } from './data.ts'
import type { JsonObject, Status } from './member.ts'
import type { SetChange, Wish } from './stream.ts'

/**
 * What the application wants to be in one room. It lives apart from any connection: calls change it
 * at any time, and every new stream is told the whole of it. What an open stream still has to be
 * told is gathered as one change, in which the newest value of a key wins.
 */
export class Desired {
  #data: JsonObject | null = null
  #status: Status | null = null
  #observe: boolean
  #patch: JsonObject | null = null
  #replace = false
  #saidStatus: Status | null = null

  constructor(observe: boolean) {
    this.#observe = observe
  }

  get observe(): boolean {
    return this.#observe
  }

  get data(): JsonObject | null {
    return this.#data
  }

  /** From observer to member; a member never turns into an observer without leaving. */
  present(): boolean {
    const changed = this.#observe
    this.#observe = false
    return changed
  }

  set(value: unknown, replace: boolean): void {
    const patch = checkData(value)
    const data = replace ? patch : mergeData(this.#data ?? {}, patch)
    checkSize(data)
    this.#data = data
    this.#patch = replace ? patch : mergeData(this.#patch ?? {}, patch)
    this.#replace ||= replace
  }

  /** null hands the status back to the activity of the page. */
  setStatus(status: Status | null): void {
    checkStatus(status)
    this.#status = status
  }

  status(activity: Status): Status {
    return this.#status ?? activity
  }

  /** The whole, for a new stream: what was waiting to be told is in it. */
  wish(activity: Status): Wish {
    this.#patch = null
    this.#replace = false
    this.#saidStatus = this.status(activity)
    return { observe: this.#observe, status: this.#saidStatus, data: this.#data }
  }

  /** What the open stream does not know yet, or null. Taken = told. */
  take(activity: Status): SetChange | null {
    const status = this.status(activity)
    const change: SetChange = {
      ...(status === this.#saidStatus ? {} : { status }),
      ...(this.#patch === null ? {} : { data: this.#patch }),
      ...(this.#replace ? { replace: true } : {}),
    }
    this.#saidStatus = status
    this.#patch = null
    this.#replace = false
    return Object.keys(change).length === 0 ? null : change
  }
}
