// The API's words, by the names they have in its document.

import type { components } from './schema'

type Schemas = components['schemas']

export type CheckResult = Schemas['CheckResult']
export type CostTotals = Schemas['CostTotals']
export type Dependencies = Schemas['Dependencies']
export type GraphEdge = Schemas['GraphEdge']
export type GraphNode = Schemas['GraphNode']
export type LiveEvent = Schemas['LiveEvent']
export type Message = Schemas['Message']
export type MessageState = Schemas['MessageState']
export type MessageType = Schemas['MessageType']
export type NewTask = Schemas['NewTask']
export type Overlap = Schemas['Overlap']
export type Priority = Schemas['Priority']
export type Project = Schemas['Project']
export type ProjectPatch = Schemas['ProjectPatch']
export type Role = Schemas['Role']
export type Sandbox = Schemas['Sandbox']
export type SandboxStatus = Schemas['SandboxStatus']
export type Session = Schemas['Session']
export type StoredEvent = Schemas['StoredEvent']
export type Task = Schemas['Task']
export type TaskGraph = Schemas['TaskGraph']
export type TaskStatus = Schemas['TaskStatus']
export type Ticket = Schemas['Ticket']
