// Package control owns the one policy engine of a process: it feeds it from the Kubernetes API,
// publishes what it computes into the watch store, and writes back what enforcers report.
//
// It watches Namespaces, Pods, Nodes, Services, external entities and nodes, tiers, groups and
// policies. Whatever has arrived since the last round is given to the engine in one batch, and what
// that changes is published as one step. Nothing is published before every informer has synced, so
// that enforcers never see a part of the policies after a restart. The upstream kinds of policies,
// whose definitions may come and go, are watched while the API server serves them; if it does not
// clearly say whether it does, nothing changes.
//
// It writes: the status of policies and groups, the system tiers, and the ExternalEntity of every
// ExternalNode. An invalid object gets a status and an Event that say so, and affects no other
// object.
//
// One goroutine drives the engine; a few workers write to the API, each object by one of them at a
// time. All of them end with Start. Store, Report and the questions (GroupMembers, GroupsOf,
// GroupsOfAddress, Endpoint, EvaluatePods) are safe for concurrent use at any time; questions are
// answered between two rounds.
package control
